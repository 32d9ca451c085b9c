#include "sim/cli.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "core/base/rng.h"
#include "sim/mutants.h"
#include "sim/plan_file.h"
#include "sim/text.h"
#include "sim/world.h"

namespace lockstep::sim {
namespace {

constexpr int kUsage = 2;
constexpr int kSafety = 10;
constexpr int kLiveness = 11;
constexpr int kCrash = 12;
constexpr int kNondeterminism = 13;
constexpr int kLimit = 14;

int exit_code_of(const Failure& failure) {
  if (failure.promise == "limit") return kLimit;
  if (failure.promise == "determinism") return kNondeterminism;
  return failure.promise.starts_with("L") ? kLiveness : kSafety;
}

// Sums over many runs.
struct Totals {
  std::uint64_t seeds = 0, bytes_seeds = 0, events = 0, launches = 0, commits = 0, aborts = 0, retries = 0, unknown = 0,
                views = 0, kills = 0, stalls = 0, cuts = 0, resets = 0, silences = 0, leaves = 0, joins = 0,
                misuses = 0, lost_runs = 0, revoked_midway = 0, hash = 0;
  double simulated_s = 0;

  void add(const Report& r) {
    seeds += 1;
    bytes_seeds += r.bytes_mode ? 1 : 0;
    events += r.events;
    launches += r.launches;
    commits += r.commits;
    aborts += r.aborts;
    retries += r.retries;
    unknown += r.unknown;
    views += r.views;
    kills += r.kills;
    stalls += r.stalls;
    cuts += r.cuts;
    resets += r.resets;
    silences += r.silences;
    leaves += r.leaves;
    joins += r.joins;
    misuses += r.misuses;
    lost_runs += r.lost_runs;
    revoked_midway += r.revoked_midway;
    hash ^= mix64(r.hash ^ mix64(r.seed));  // whatever the order of seeds
    simulated_s += static_cast<double>(r.time_ns) * 1e-9;
  }
};

nlohmann::json json_of(const Totals& t) {
  return {{"seeds", t.seeds},
          {"bytes_seeds", t.bytes_seeds},
          {"events", t.events},
          {"launches", t.launches},
          {"commits", t.commits},
          {"aborts", t.aborts},
          {"retries", t.retries},
          {"unknown", t.unknown},
          {"views", t.views},
          {"kills", t.kills},
          {"stalls", t.stalls},
          {"cuts", t.cuts},
          {"resets", t.resets},
          {"silences", t.silences},
          {"leaves", t.leaves},
          {"joins", t.joins},
          {"misuses", t.misuses},
          {"lost_runs", t.lost_runs},
          {"revoked_midway", t.revoked_midway},
          {"hash", hex(t.hash)},
          {"simulated_s", t.simulated_s}};
}

nlohmann::json json_of(const Report& r) {
  nlohmann::json j = {{"seed", r.seed},           {"hash", hex(r.hash)},
                      {"events", r.events},       {"time_ns", r.time_ns},
                      {"peers", r.peers},         {"bytes_mode", r.bytes_mode},
                      {"launches", r.launches},   {"commits", r.commits},
                      {"aborts", r.aborts},       {"retries", r.retries},
                      {"unknown", r.unknown},     {"views", r.views},
                      {"kills", r.kills},         {"stalls", r.stalls},
                      {"cuts", r.cuts},           {"resets", r.resets},
                      {"silences", r.silences},   {"leaves", r.leaves},
                      {"joins", r.joins},         {"misuses", r.misuses},
                      {"lost_runs", r.lost_runs}, {"revoked_midway", r.revoked_midway}};
  if (r.failure) {
    j["failure"] = {{"promise", r.failure->promise},
                    {"text", r.failure->text},
                    {"at_ns", r.failure->at_ns},
                    {"event", r.failure->event}};
  }
  return j;
}

Report report_from(const nlohmann::json& j) {
  Report r;
  r.seed = j.at("seed");
  r.hash = std::strtoull(j.at("hash").get<std::string>().c_str(), nullptr, 16);
  r.events = j.at("events");
  r.time_ns = j.at("time_ns");
  r.peers = j.at("peers");
  r.bytes_mode = j.at("bytes_mode");
  r.launches = j.at("launches");
  r.commits = j.at("commits");
  r.aborts = j.at("aborts");
  r.retries = j.at("retries");
  r.unknown = j.at("unknown");
  r.views = j.at("views");
  r.kills = j.at("kills");
  r.stalls = j.at("stalls");
  r.cuts = j.at("cuts");
  r.resets = j.at("resets");
  r.silences = j.at("silences");
  r.leaves = j.at("leaves");
  r.joins = j.at("joins");
  r.misuses = j.at("misuses");
  r.lost_runs = j.at("lost_runs");
  r.revoked_midway = j.at("revoked_midway");
  if (j.contains("failure")) {
    const auto& f = j.at("failure");
    r.failure = Failure{f.at("promise"), f.at("text"), f.at("at_ns"), f.at("event")};
  }
  return r;
}

struct Flags {
  std::uint64_t seed = 0;
  std::string seeds;
  std::uint32_t jobs = 1;
  std::uint32_t peers = 0;
  std::uint32_t max_peers = 16;
  std::string mode = "drawn";
  std::string time;
  std::uint64_t count = 200;
  std::uint64_t until = 0;
  std::string file;
  std::string write_plan;
  std::string mutant;
  bool json = false;
  bool calm = false;
  bool trace = false;
  bool streams = false;
  bool keep_going = false;
  bool hashes = false;
};

PlanOptions plan_options(const Flags& flags) {
  PlanOptions options;
  options.peers = flags.peers;
  options.max_peers = flags.max_peers;
  options.calm = flags.calm;
  options.payload = flags.mode == "token"   ? PlanOptions::Payload::kToken
                    : flags.mode == "bytes" ? PlanOptions::Payload::kBytes
                                            : PlanOptions::Payload::kDrawn;
  return options;
}

std::string repeat_line(const Flags& flags, std::uint64_t seed) {
  std::string line = "lockstep sim run --seed " + std::to_string(seed);
  if (flags.peers != 0) line += " --peers " + std::to_string(flags.peers);
  if (flags.max_peers != 16) line += " --max-peers " + std::to_string(flags.max_peers);
  if (flags.mode != "drawn") line += " --mode " + flags.mode;
  if (flags.calm) line += " --calm";
  if (!flags.mutant.empty()) line += " --mutant " + flags.mutant;
  return line + " --trace";
}

void print_totals(const Totals& t, double seconds) {
  std::printf("seeds      %llu (%llu in bytes mode), %.1f per second; %.0f events per second\n",
              static_cast<unsigned long long>(t.seeds), static_cast<unsigned long long>(t.bytes_seeds),
              static_cast<double>(t.seeds) / seconds, static_cast<double>(t.events) / seconds);
  std::printf("simulated  %.1f hours, %.0f times real time\n", t.simulated_s / 3600, t.simulated_s / seconds);
  const auto row = [](const char* name, std::uint64_t value) {
    std::printf("%-10s %llu\n", name, static_cast<unsigned long long>(value));
  };
  row("launches", t.launches);
  row("commits", t.commits);
  row("aborts", t.aborts);
  row("retries", t.retries);
  row("unknown", t.unknown);
  row("views", t.views);
  row("kills", t.kills);
  row("stalls", t.stalls);
  row("cuts", t.cuts);
  row("resets", t.resets);
  row("silences", t.silences);
  row("leaves", t.leaves);
  row("joins", t.joins);
  row("misuses", t.misuses);
  row("lost runs", t.lost_runs);
  row("races", t.revoked_midway);
  std::printf("hash       %s\n", hex(t.hash).c_str());
}

int one_seed(const Flags& flags) {
  const Plan plan = plan_of(flags.seed, plan_options(flags));
  if (!flags.write_plan.empty()) std::ofstream(flags.write_plan) << to_text(plan);
  WorldOptions options;
  if (flags.trace) options.trace = [](const std::string& line) { std::printf("%s\n", line.c_str()); };
  options.trace_streams = flags.streams;
  options.until = flags.until;
  const Report report = run(plan, options);
  if (flags.json) {
    std::printf("%s\n", json_of(report).dump().c_str());
  } else {
    Totals totals;
    totals.add(report);
    std::printf("seed %llu: %u peers, %s, %llu events, %.3f s simulated, hash %s\n",
                static_cast<unsigned long long>(report.seed), report.peers, report.bytes_mode ? "bytes" : "tokens",
                static_cast<unsigned long long>(report.events), totals.simulated_s, hex(report.hash).c_str());
    std::printf("%llu commits, %llu aborts, %llu views, %llu kills, %llu lost runs\n",
                static_cast<unsigned long long>(report.commits), static_cast<unsigned long long>(report.aborts),
                static_cast<unsigned long long>(report.views), static_cast<unsigned long long>(report.kills),
                static_cast<unsigned long long>(report.lost_runs));
  }
  if (!report.failure) return 0;
  std::fprintf(stderr, "%s broken at %.6f s, event %llu: %s\n%s\n", report.failure->promise.c_str(),
               static_cast<double>(report.failure->at_ns) * 1e-9,
               static_cast<unsigned long long>(report.failure->event), report.failure->text.c_str(),
               repeat_line(flags, flags.seed).c_str());
  return exit_code_of(*report.failure);
}

// ---- many seeds, in child processes: an assertion in one seed is an answer, not the end ----

struct Worker {
  pid_t pid = 0;
  int out = -1;
  std::uint64_t next = 0;     // first seed not yet started
  std::uint64_t running = 0;  // seed under way
  std::string buffer;
};

void work(const Flags& flags, std::uint64_t first, std::uint64_t end, std::uint64_t stride, int out) {
  const auto put = [&](const std::string& line) {
    std::size_t done = 0;
    while (done < line.size()) {
      const ssize_t n = ::write(out, line.data() + done, line.size() - done);
      if (n <= 0) _exit(0);
      done += static_cast<std::size_t>(n);
    }
  };
  for (std::uint64_t seed = first; seed < end; seed += stride) {
    put("s " + std::to_string(seed) + "\n");
    put("r " + json_of(run(plan_of(seed, plan_options(flags)))).dump() + "\n");
  }
  _exit(0);
}

void start(Worker& worker, const Flags& flags, std::uint64_t first, std::uint64_t end, std::uint64_t stride) {
  int ends[2];
  if (::pipe(ends) != 0) std::abort();
  std::fflush(stdout);
  worker.pid = ::fork();
  if (worker.pid == 0) {
    ::close(ends[0]);
    work(flags, first, end, stride, ends[1]);
  }
  ::close(ends[1]);
  worker.out = ends[0];
  worker.next = first;
  worker.buffer.clear();
}

struct Sweep {
  Totals totals;
  std::vector<Report> failures;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> hashes;
};

Sweep sweep(const Flags& flags, std::uint64_t first, std::uint64_t end, double limit_s, bool progress) {
  Sweep result;
  const std::uint64_t jobs = std::max(1U, flags.jobs);
  std::vector<Worker> workers(jobs);
  for (std::uint64_t j = 0; j < jobs && first + j < end; ++j) start(workers[j], flags, first + j, end, jobs);
  const auto began = std::chrono::steady_clock::now();
  auto told = began;
  const auto seconds_since = [](auto then) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - then).count();
  };
  bool stop = false;
  for (;;) {
    std::vector<pollfd> fds;
    for (const Worker& worker : workers) {
      if (worker.out >= 0) fds.push_back({worker.out, POLLIN, 0});
    }
    if (fds.empty() || stop) break;
    if (::poll(fds.data(), fds.size(), 1000) < 0 && errno != EINTR) break;
    for (Worker& worker : workers) {
      const auto fd = std::find_if(fds.begin(), fds.end(), [&](const pollfd& p) { return p.fd == worker.out; });
      if (fd == fds.end() || fd->revents == 0) continue;
      char bytes[65536];
      const ssize_t n = ::read(worker.out, bytes, sizeof bytes);
      if (n > 0) {
        worker.buffer.append(bytes, static_cast<std::size_t>(n));
      } else {
        int status = 0;
        ::waitpid(worker.pid, &status, 0);
        ::close(worker.out);
        worker.out = -1;
        if (WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) != 0)) {
          Report report;
          report.seed = worker.running;
          report.failure = Failure{"crash", "the process died; an assertion is printed above", 0, 0};
          result.failures.push_back(report);
          if (!flags.keep_going) {
            stop = true;
          } else if (worker.running + jobs < end) {
            start(worker, flags, worker.running + jobs, end, jobs);
          }
        }
      }
      std::size_t at = 0;
      for (std::size_t newline = 0; (newline = worker.buffer.find('\n', at)) != std::string::npos; at = newline + 1) {
        const std::string line = worker.buffer.substr(at, newline - at);
        if (line[0] == 's') {
          worker.running = std::strtoull(line.c_str() + 2, nullptr, 10);
          continue;
        }
        const Report report = report_from(nlohmann::json::parse(line.substr(2)));
        result.totals.add(report);
        if (flags.hashes) result.hashes.emplace_back(report.seed, report.hash);
        if (report.failure) {
          result.failures.push_back(report);
          if (!flags.keep_going) stop = true;
        }
      }
      worker.buffer.erase(0, at);
    }
    if (progress && ::isatty(2) != 0 && seconds_since(told) > 2) {
      told = std::chrono::steady_clock::now();
      const double rate = static_cast<double>(result.totals.seeds) / seconds_since(began);
      std::fprintf(stderr, "\r%llu seeds, %.0f per second, %.0f s left, %zu failures   ",
                   static_cast<unsigned long long>(result.totals.seeds), rate,
                   rate > 0 ? static_cast<double>(end - first - result.totals.seeds) / rate : 0.0,
                   result.failures.size());
    }
    if (limit_s > 0 && seconds_since(began) > limit_s) stop = true;
  }
  for (Worker& worker : workers) {
    if (worker.out < 0) continue;
    ::kill(worker.pid, SIGKILL);
    ::waitpid(worker.pid, nullptr, 0);
    ::close(worker.out);
  }
  if (progress && ::isatty(2) != 0) std::fprintf(stderr, "\r%60s\r", "");
  std::sort(result.failures.begin(), result.failures.end(),
            [](const Report& a, const Report& b) { return a.seed < b.seed; });
  std::sort(result.hashes.begin(), result.hashes.end());
  return result;
}

int many_seeds(const Flags& flags, std::uint64_t first, std::uint64_t end, double limit_s) {
  const auto began = std::chrono::steady_clock::now();
  const Sweep result = sweep(flags, first, end, limit_s, !flags.json);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  if (flags.json) {
    nlohmann::json j = json_of(result.totals);
    j["version"] = 1;
    j["seconds"] = seconds;
    j["failures"] = nlohmann::json::array();
    for (const Report& report : result.failures) j["failures"].push_back(json_of(report));
    std::printf("%s\n", j.dump(2).c_str());
  } else {
    print_totals(result.totals, seconds);
    if (result.failures.empty() && result.totals.seeds > 0) {
      std::printf("clean: with 95 %% confidence fewer than %.4f %% of seeds fail\n",
                  300.0 / static_cast<double>(result.totals.seeds));
    }
  }
  for (std::size_t i = 0; i < result.failures.size(); ++i) {
    if (i == 20) {
      std::fprintf(stderr, "... and %zu more\n", result.failures.size() - i);
      break;
    }
    const Report& report = result.failures[i];
    std::fprintf(stderr, "seed %llu: %s broken at %.6f s: %s\n", static_cast<unsigned long long>(report.seed),
                 report.failure->promise.c_str(), static_cast<double>(report.failure->at_ns) * 1e-9,
                 report.failure->text.c_str());
  }
  if (result.failures.empty()) return 0;
  std::fprintf(stderr, "%s\n", repeat_line(flags, result.failures.front().seed).c_str());
  const Failure& failure = *result.failures.front().failure;
  return failure.promise == "crash" ? kCrash : exit_code_of(failure);
}

int do_run(const Flags& flags) {
  if (flags.seeds.empty()) return one_seed(flags);
  const std::size_t dots = flags.seeds.find("..");
  char* rest = nullptr;
  const std::uint64_t first = std::strtoull(flags.seeds.c_str(), &rest, 10);
  if (dots == std::string::npos || rest != flags.seeds.c_str() + dots) {
    std::fprintf(stderr, "--seeds takes a range such as 0..1000\n");
    return kUsage;
  }
  const std::uint64_t last = std::strtoull(flags.seeds.c_str() + dots + 2, nullptr, 10);
  if (last <= first) {
    std::fprintf(stderr, "--seeds A..B runs A, A+1, ..., B-1: B must be larger than A\n");
    return kUsage;
  }
  return many_seeds(flags, first, last, std::atof(flags.time.c_str()));
}

int do_replay(const Flags& flags) {
  std::ifstream file(flags.file);
  if (!file) {
    std::fprintf(stderr, "%s: %s\n", flags.file.c_str(), std::strerror(errno));
    return kUsage;
  }
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const Result<Plan> plan = plan_from_text(text);
  if (!plan) {
    std::fprintf(stderr, "%s:%s\n", flags.file.c_str(), plan.error().text.c_str());
    return kUsage;
  }
  WorldOptions options;
  if (!flags.json) options.trace = [](const std::string& line) { std::printf("%s\n", line.c_str()); };
  options.trace_streams = flags.streams;
  options.until = flags.until;
  const Report report = run(*plan, options);
  if (flags.json) {
    std::printf("%s\n", json_of(report).dump().c_str());
  } else {
    std::printf("%llu commits, %llu aborts, %llu views; seed %llu, hash %s\n",
                static_cast<unsigned long long>(report.commits), static_cast<unsigned long long>(report.aborts),
                static_cast<unsigned long long>(report.views), static_cast<unsigned long long>(report.seed),
                hex(report.hash).c_str());
  }
  if (!report.failure) return 0;
  std::fprintf(stderr, "%s broken: %s\nlockstep sim replay %s\n", report.failure->promise.c_str(),
               report.failure->text.c_str(), flags.file.c_str());
  return exit_code_of(*report.failure);
}

// Every seed in two processes, and backwards in one: all must give the same hashes.
int do_det(Flags flags) {
  flags.hashes = true;
  flags.keep_going = true;
  flags.jobs = 2;
  const Sweep forth = sweep(flags, flags.seed, flags.seed + flags.count, 0, false);
  int code = 0;
  for (auto it = forth.hashes.rbegin(); it != forth.hashes.rend(); ++it) {
    const Report again = run(plan_of(it->first, plan_options(flags)));
    if (again.hash == it->second) continue;
    std::fprintf(stderr, "seed %llu: %s in one process, %s in another\n", static_cast<unsigned long long>(it->first),
                 hex(it->second).c_str(), hex(again.hash).c_str());
    code = kNondeterminism;
  }
  if (flags.trace) {
    for (const auto& [seed, hash] : forth.hashes) {
      std::printf("%llu %s\n", static_cast<unsigned long long>(seed), hex(hash).c_str());
    }
  }
  std::printf("%llu seeds %s\n", static_cast<unsigned long long>(forth.totals.seeds), hex(forth.totals.hash).c_str());
  for (const Report& report : forth.failures) {
    if (report.failure->promise == "crash") code = kCrash;
  }
  return code;
}

}  // namespace

int sim_main(int argc, char** argv) {
  CLI::App app("Runs the core in virtual time on a network that fails, from one seed.", "lockstep sim");
  app.require_subcommand(1);
  Flags flags;
  const auto world = [&](CLI::App* command) {
    command->add_option("--peers", flags.peers, "hosts of peers; 0: drawn")->check(CLI::Range(0, 60));
    command->add_option("--max-peers", flags.max_peers, "the most that are drawn")->check(CLI::Range(2, 60));
    command->add_option("--mode", flags.mode, "token, bytes or drawn")
        ->check(CLI::IsMember({"token", "bytes", "drawn"}));
    command->add_flag("--calm", flags.calm, "no faults");
  };
  CLI::App* run_command = app.add_subcommand("run", "one seed, or many");
  world(run_command);
  run_command->add_option("--seed", flags.seed, "one seed");
  run_command->add_option("--seeds", flags.seeds, "A..B: A, A+1, ..., B-1");
  run_command->add_option("--jobs", flags.jobs, "processes")->check(CLI::Range(1, 256));
  run_command->add_option("--time", flags.time, "seconds after which no more seeds are started");
  run_command->add_option("--write-plan", flags.write_plan, "write the plan of --seed to this file");
  run_command->add_option("--until", flags.until, "stop after so many events");
  run_command->add_flag("--json", flags.json, "the same facts as JSON");
  run_command->add_flag("--trace", flags.trace, "a line for what happens (--seed)");
  run_command->add_flag("--streams", flags.streams, "with --trace: also every stream");
  run_command->add_flag("--keep-going", flags.keep_going, "do not stop at the first failure");
  CLI::App* replay_command = app.add_subcommand("replay", "run a plan from a file");
  replay_command->add_option("plan", flags.file, "a plan, as `run --write-plan` writes it")->required();
  replay_command->add_option("--until", flags.until, "stop after so many events");
  replay_command->add_flag("--json", flags.json, "the report as JSON, no trace");
  replay_command->add_flag("--streams", flags.streams, "also every stream");
  CLI::App* det_command = app.add_subcommand("det", "determinism: one hash of many seeds");
  world(det_command);
  det_command->add_option("--seeds", flags.count, "how many");
  det_command->add_option("--first", flags.seed, "the first one");
  det_command->add_flag("--trace", flags.trace, "also the hash of every seed");
  for (CLI::App* command : {run_command, replay_command, det_command}) {
    CLI::Option* option = command->add_option("--mutant", flags.mutant, "plant this bug first");
    if (!kMutantsBuilt) option->group("");  // not in the help
  }
  CLI::App* mutants_command = app.add_subcommand("mutants", "plant bugs, and count the seeds until each is found");
  HuntOptions hunt;
  mutants_command->add_option("--only", hunt.only, "only this mutant; may be repeated");
  mutants_command->add_option("--seeds", hunt.seeds, "at most so many for each, instead of its budget");
  mutants_command->add_option("--jobs", hunt.jobs, "mutants at once")->check(CLI::Range(1, 256));
  mutants_command->add_flag("--json", hunt.json, "the same facts as JSON");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;
  }
  if (mutants_command->parsed()) return hunt_mutants(hunt);
  if (!flags.mutant.empty()) {
    const Result<Mutant> which = mutant_of(flags.mutant);
    if (!which.ok()) {
      std::fprintf(stderr, "lockstep sim: %s\n", which.error().text.c_str());
      return kUsage;
    }
    plant(*which);  // before any process is forked
  }
  if (run_command->parsed()) return do_run(flags);
  if (replay_command->parsed()) return do_replay(flags);
  return do_det(flags);
}

}  // namespace lockstep::sim
