// Kills sources while a newcomer takes over their state. In each trial, 2 or 3 processes share a state, and another one
// joins and syncs, alternately in place and staged. At a random moment of the transfer some sources, or all, get
// SIGKILL. If a source remains, the newcomer must end with the sources' state. Otherwise it ends with an error, unless
// it may continue with its own state. Its memory must match the outcome: the old state, the sources' state, or (in
// place) an undefined state. The journals of all processes are checked. The duration of a transfer is measured first,
// and again whenever a kill comes too late. Exits with 1 if anything is wrong.
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "core/base/rng.h"
#include "tests/processes/coordinator_process.h"
#include "tests/processes/shared_journal.h"
#include "transport/communicator.h"

namespace lockstep::testing {
namespace {

constexpr Duration kPatience = seconds(60);
constexpr std::uint32_t kNeverFounds = kMaxMembers;
constexpr std::uint64_t kAgreedRevision = 7;  // revision of the sources; newcomers have 0

enum SyncChaosPurpose : std::uint64_t { kSources = 1, kVictims, kAll, kFirstVictim, kMoment, kStrategy };

// Tensors and values drawn from one seed. The last tensor differs between peers.
class DrawnState {
 public:
  DrawnState(std::uint64_t bytes, std::uint64_t seed, std::uint64_t own_seed) : seed_(seed), own_seed_(own_seed) {
    // A large tensor, one of a few pieces with an odd end, an empty one, and a tiny one.
    for (const std::uint64_t size :
         {bytes, bytes / 16 + 12'345, std::uint64_t{0}, std::uint64_t{3}, std::uint64_t{4099}}) {
      tensors_.emplace_back(size);
    }
    for (std::size_t t = 0; t < tensors_.size(); ++t) fill(tensors_[t], seed_of(t, seed_));
    values_ = values_of(seed_);
  }

  [[nodiscard]] transport::LaunchArgs sync(bool staged, bool receive_only) {
    auto statement = std::make_shared<state::Statement>();
    transport::LaunchArgs args;
    args.collective = wire::Collective::kSync;
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      auto& bytes = tensors_[t];
      const bool own = t + 1 == tensors_.size();
      statement->manifest.tensors.push_back({"tensor " + std::to_string(t), DataType::kU8, bytes.size(), own});
      args.tensors.push_back({nullptr, bytes.data(), bytes.size(), bytes.size()});
    }
    for (std::size_t v = 0; v < values_.size(); ++v) {
      statement->manifest.values.push_back({"value " + std::to_string(v), state::ValueType::kUint});
      args.values.push_back(&values_[v]);
    }
    statement->values.assign(values_.begin(), values_.end());
    statement->revision = seed_ == own_seed_ ? 0 : kAgreedRevision;
    statement->strategy = receive_only ? state::Strategy::kReceiveOnly : state::Strategy::kPopular;
    statement->staged = staged;
    args.state = std::move(statement);
    return args;
  }

  // Whether memory holds the state of this seed and this peer's own last tensor.
  [[nodiscard]] bool holds(std::uint64_t seed) const {
    std::vector<std::byte> expected;
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      expected.resize(tensors_[t].size());
      fill(expected, seed_of(t, seed));
      if (expected != tensors_[t]) return false;
    }
    return values_ == values_of(seed);
  }

 private:
  [[nodiscard]] std::uint64_t seed_of(std::size_t tensor, std::uint64_t seed) const {
    return mix64(tensor + 1 == tensors_.size() ? own_seed_ : seed) + tensor;
  }

  static void fill(std::span<std::byte> bytes, std::uint64_t seed) {
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
      const std::uint64_t word = mix64(seed ^ (at << 8U));
      std::memcpy(bytes.data() + at, &word, std::min(sizeof word, bytes.size() - at));
    }
  }

  static std::array<std::uint64_t, 3> values_of(std::uint64_t seed) { return {seed, mix64(seed), mix64(seed + 1)}; }

  std::uint64_t seed_;
  std::uint64_t own_seed_;
  std::vector<std::vector<std::byte>> tensors_;
  std::array<std::uint64_t, 3> values_{};
};

struct SyncPeer {
  std::string name;
  std::string coordinator;
  std::uint32_t sources = 0;
  std::uint64_t bytes = 0;
  std::uint64_t state_seed = 0;  // of the sources
  std::uint64_t own_seed = 0;
  bool staged = false;
  bool receive_only = false;
};

// The end of a sync, and the content of memory: "old", "sources" or "neither".
struct SyncEnd {
  Status status = Status::kInternal;
  bool defined = false;
  std::uint64_t revision = 0;
  Digest root;
  std::uint32_t world = 0;
  std::uint32_t retries = 0;
  std::uint64_t received = 0;
  Instant begin;
  Instant end;
  std::string memory;
  std::string text;
};

std::string line_of(const SyncEnd& end) {
  std::ostringstream line;
  line << "E " << static_cast<int>(end.status) << ' ' << end.defined << ' ' << end.revision << ' ' << end.root.high
       << ' ' << end.root.low << ' ' << end.world << ' ' << end.retries << ' ' << end.received << ' ' << end.begin.ns
       << ' ' << end.end.ns << ' ' << end.memory << ' ' << end.text;
  return line.str();
}

std::optional<SyncEnd> end_of(const std::string& line) {
  SyncEnd end;
  std::istringstream words(line);
  std::string kind;
  int status = 0;
  words >> kind >> status >> end.defined >> end.revision >> end.root.high >> end.root.low >> end.world >> end.retries >>
      end.received >> end.begin.ns >> end.end.ns >> end.memory;
  if (!words || kind != "E") return std::nullopt;
  end.status = static_cast<Status>(status);
  std::getline(words >> std::ws, end.text);
  return end;
}

// Joins, syncs, reports the result, and stays until it is asked to leave.
int take_part(Parent& parent, const SyncPeer& peer, const SharedJournal& journal) {
  const bool newcomer = peer.name == "newcomer";
  transport::CommunicatorOptions options;
  options.peer.name = peer.name;
  options.listen_host = "127.0.0.1";
  options.peer.founders = newcomer ? kNeverFounds : peer.sources;
  options.journal = [&](std::string_view line) { journal.write(line); };
  auto made = transport::Communicator::create(options);
  if (!made.ok()) return 1;
  transport::Communicator& comm = **made;
  DrawnState state(peer.bytes, newcomer ? peer.own_seed : peer.state_seed, peer.own_seed);

  const auto over = [&](const char* what, const transport::Work& work) {
    work.wait();
    if (work.outcome().status == Status::kOk) return true;
    parent.say("X " + std::string(what) + ": " + work.outcome().text);
    return false;
  };
  const auto sync = [&] {
    SyncEnd end;
    const auto args = state.sync(peer.staged, peer.receive_only);
    end.begin = monotonic_now();
    const auto work = comm.launch(args);
    if (!work.ok()) {
      end.text = work.error().text;
      return end;
    }
    parent.say("launched");
    work->wait();
    end.end = monotonic_now();
    const transport::Outcome& outcome = work->outcome();
    end.status = outcome.status;
    end.defined = outcome.state_defined;
    end.revision = outcome.revision;
    end.root = outcome.root;
    end.world = outcome.world;
    end.retries = outcome.retries;
    end.received = outcome.bytes_received;
    end.memory = state.holds(peer.state_seed) ? "sources" : state.holds(peer.own_seed) ? "old" : "neither";
    end.text = outcome.text;
    return end;
  };

  if (!over("connect", comm.connect(peer.coordinator))) return 1;
  if (!newcomer) {  // sources agree among themselves first, so that they vote
    parent.say(line_of(sync()));
    if (!over("admit", comm.admit(peer.sources + 1))) return 1;
  }
  parent.say(line_of(sync()));
  parent.hear();
  return 0;
}

struct SyncActor {
  explicit SyncActor(const SyncPeer& peer)
      : name(peer.name), process([this, peer](Parent& parent) { return take_part(parent, peer, journal); }) {}

  // The end of its next sync; nothing if `deadline` passes, the process has died, or it reports an error.
  std::optional<SyncEnd> ended(Instant deadline) {
    for (;;) {
      const auto line = process.hear(deadline - monotonic_now());
      if (!line) return std::nullopt;
      if (*line == "launched") continue;
      if (auto end = end_of(*line)) return end;
      std::printf("%s: %s\n", name.c_str(), line->c_str());
      return std::nullopt;
    }
  }

  std::optional<SyncEnd> ended() { return ended(monotonic_now() + kPatience); }

  std::string name;
  SharedJournal journal;
  Process process;
};

struct SyncChaosSettings {
  std::uint64_t kills = 100;
  std::uint64_t seed = 1;
  std::uint64_t mib = 64;
  bool verbose = false;
};

class SyncChaos {
 public:
  explicit SyncChaos(const SyncChaosSettings& settings) : settings_(settings) {}

  int run() {
    for (std::uint64_t n = 0; n < 4; ++n) {  // undisturbed, both ways, to measure the duration
      if (!trial(n, false)) return 1;
    }
    for (std::uint64_t n = 0; n < settings_.kills; ++n) {
      if (trial(n, true)) continue;
      std::printf("FAILED in trial %llu of seed %llu\n", static_cast<unsigned long long>(n),
                  static_cast<unsigned long long>(settings_.seed));
      return 1;
    }
    std::printf("sync chaos: ok: %llu trials (seed %llu), %llu MiB; undisturbed %.0f ms in place, %.0f ms staged;",
                static_cast<unsigned long long>(settings_.kills), static_cast<unsigned long long>(settings_.seed),
                static_cast<unsigned long long>(settings_.mib), transfer_[0].seconds() * 1e3,
                transfer_[1].seconds() * 1e3);
    for (const auto& [what, count] : counts_) std::printf(" %s: %zu;", what.c_str(), count);
    std::printf(" attempts given up: %zu\n", retries_);
    return 0;
  }

 private:
  bool complain(const std::string& what) {
    std::printf("FAILED: %s\n", what.c_str());
    return false;
  }

  SyncPeer peer_of(std::uint64_t n, const std::string& address) const {
    SyncPeer peer;
    peer.coordinator = address;
    peer.sources = static_cast<std::uint32_t>(2 + below(draw(settings_.seed, kSources, n), 2));
    peer.bytes = settings_.mib << 20U;
    peer.state_seed = draw(settings_.seed, 0, n);
    peer.staged = n % 2 == 1;
    return peer;
  }

  // The sources to kill: in every fourth trial all of them, otherwise at least one and not all.
  std::vector<std::size_t> victims(std::uint64_t n, std::size_t sources) const {
    const bool all = below(draw(settings_.seed, kAll, n), 4) == 0;
    const std::size_t count = all ? sources : 1 + below(draw(settings_.seed, kVictims, n), sources - 1);
    const std::size_t first = below(draw(settings_.seed, kFirstVictim, n), sources);
    std::vector<std::size_t> chosen;
    for (std::size_t i = 0; i < count; ++i) chosen.push_back((first + i) % sources);
    return chosen;
  }

  bool trial(std::uint64_t n, bool kills) {
    const CoordinatorProcess coordinator;
    if (coordinator.address.empty()) return complain("the coordinator did not start");
    SyncPeer peer = peer_of(n, coordinator.address);
    std::vector<std::unique_ptr<SyncActor>> sources;
    for (std::uint32_t i = 0; i < peer.sources; ++i) {
      peer.name = "source " + std::to_string(i);
      peer.own_seed = draw(settings_.seed, 0, n, 1 + i);
      sources.push_back(std::make_unique<SyncActor>(peer));
    }
    std::optional<SyncEnd> agreed;
    for (auto& source : sources) {
      agreed = source->ended();
      if (!agreed || agreed->status != Status::kOk)
        return complain(source->name + " cannot agree with the other sources");
    }
    peer.name = "newcomer";
    peer.own_seed = draw(settings_.seed, 0, n, 100);
    peer.receive_only = below(draw(settings_.seed, kStrategy, n), 2) == 1;
    SyncActor newcomer(peer);
    if (newcomer.process.hear(kPatience) != "launched") return complain("the newcomer did not come in");

    std::vector<std::size_t> dead;
    Instant killed_at = kNever;
    Duration& transfer = transfer_.at(peer.staged ? 1 : 0);
    std::optional<SyncEnd> end;
    if (kills) {
      const auto longest = static_cast<std::uint64_t>(transfer.ns);
      const Instant moment =
          monotonic_now() + nanoseconds(static_cast<std::int64_t>(below(draw(settings_.seed, kMoment, n), longest)));
      end = newcomer.ended(moment);  // the sync may be faster this time
      dead = victims(n, sources.size());
      killed_at = monotonic_now();
      for (const std::size_t victim : dead) sources[victim]->process.signal(SIGKILL);
    }
    if (!end) end = newcomer.ended();
    if (!end) return complain("the newcomer hangs or is gone");
    if (end->end < killed_at) transfer = std::min(transfer, end->end - end->begin);
    tell(n, peer, dead.size(), *end, killed_at);
    const bool right =
        judge(peer, *end, *agreed, dead.size() == sources.size()) && judge_sources(sources, dead, *agreed);
    return right && audit(newcomer, sources) && count(peer, *end, dead.size() == sources.size(), killed_at);
  }

  void tell(std::uint64_t n, const SyncPeer& peer, std::size_t dead, const SyncEnd& end, Instant killed_at) const {
    if (!settings_.verbose) return;
    std::printf(
        "%3llu: %u sources, %zu die %s, %s, %s: %s, %s, %s memory, world %u, %u retries, %.1f MiB, %.0f ms: %s\n",
        static_cast<unsigned long long>(n), peer.sources, dead,
        killed_at == kNever ? "" : ("after " + std::to_string((killed_at - end.begin).ns / 1'000'000) + " ms").c_str(),
        peer.staged ? "staged" : "in place", peer.receive_only ? "receives only" : "votes",
        std::string(status_name(end.status)).c_str(), end.defined ? "defined" : "undefined", end.memory.c_str(),
        end.world, end.retries, static_cast<double>(end.received) / (1 << 20), (end.end - end.begin).seconds() * 1e3,
        end.text.c_str());
  }

  bool judge(const SyncPeer& peer, const SyncEnd& end, const SyncEnd& agreed, bool all_dead) {
    const auto wrong = [&](const char* what) {
      return complain("the newcomer: " + std::string(what) + ": " + line_of(end));
    };
    const bool ok = end.status == Status::kOk;
    if (!ok && !all_dead) return wrong("an error although a source was left");
    if (!ok && end.status != Status::kStateUndefined) return wrong("an error that is not that nobody has a state");
    if (!ok && end.text.empty()) return wrong("an error without a text");
    if (!end.defined) return !ok && !peer.staged ? true : wrong("an undefined state");
    const bool took_over = end.root == agreed.root && end.revision == kAgreedRevision;
    if (!took_over && (end.root == agreed.root || end.revision != 0)) return wrong("a state of neither side");
    if (end.memory != (took_over ? "sources" : "old")) return wrong("memory does not hold what the outcome says");
    if (!ok) return !peer.staged || !took_over ? true : wrong("staged, and written to although it failed");
    if (!took_over && (peer.receive_only || !all_dead || end.world != 1)) return wrong("its own state won");
    return true;
  }

  bool judge_sources(const std::vector<std::unique_ptr<SyncActor>>& sources, const std::vector<std::size_t>& dead,
                     const SyncEnd& agreed) {
    for (std::size_t i = 0; i < sources.size(); ++i) {
      if (std::find(dead.begin(), dead.end(), i) != dead.end()) continue;
      const auto end = sources[i]->ended();
      const bool right = end && end->status == Status::kOk && end->root == agreed.root && end->memory == "sources" &&
                         end->revision == kAgreedRevision;
      if (!right) return complain(sources[i]->name + ": " + (end ? line_of(*end) : "hangs or is gone"));
    }
    return true;
  }

  // All live processes leave; after that, every journal is complete.
  bool audit(SyncActor& newcomer, const std::vector<std::unique_ptr<SyncActor>>& sources) {
    sim::Audit audit;
    std::vector<SyncActor*> all{&newcomer};
    for (const auto& source : sources) all.push_back(source.get());
    for (SyncActor* actor : all) {
      actor->process.hang_up();
      if (!actor->process.exit_status(kPatience)) return complain(actor->name + " does not end");
      if (const std::string wrong = actor->journal.tell(audit); !wrong.empty()) {
        return complain(actor->name + " has written " + wrong);
      }
    }
    for (const sim::Failure& failure : audit.judge()) return complain(failure.promise + " is broken: " + failure.text);
    return true;
  }

  bool count(const SyncPeer& peer, const SyncEnd& end, bool all_dead, Instant killed_at) {
    if (killed_at == kNever) return true;
    ++counts_[killed_at < end.end ? "killed in mid-transfer" : "killed after it"];
    std::string what = all_dead ? "all dead, " : "some dead, ";
    what += peer.staged ? "staged, " : "in place, ";
    what += end.status == Status::kOk ? "ok, " : "error, ";
    what += end.defined ? end.memory + (end.memory == "old" ? " state" : "' state") : "undefined";
    ++counts_[what];
    retries_ += end.retries;
    return true;
  }

  const SyncChaosSettings settings_;
  std::array<Duration, 2> transfer_{kPatience, kPatience};  // shortest undisturbed transfer: in place, staged
  std::map<std::string, std::size_t> counts_;
  std::size_t retries_ = 0;
};

}  // namespace
}  // namespace lockstep::testing

int main(int argc, char** argv) {
  lockstep::testing::SyncChaosSettings settings;
  const std::map<std::string, std::uint64_t*> numbers = {
      {"--kills", &settings.kills}, {"--seed", &settings.seed}, {"--mib", &settings.mib}};
  for (int i = 1; i < argc; ++i) {
    const auto number = numbers.find(argv[i]);
    if (std::strcmp(argv[i], "--verbose") == 0) {
      settings.verbose = true;
    } else if (number != numbers.end() && i + 1 < argc) {
      *number->second = std::strtoull(argv[++i], nullptr, 10);
    } else {
      std::fprintf(stderr, "usage: lockstep_sync_chaos [--kills N] [--seed S] [--mib SIZE] [--verbose]\n");
      return 2;
    }
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  return lockstep::testing::SyncChaos(settings).run();
}
