#include "tests/lab/wan/yardstick.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>
#include <variant>

#include "tests/lab/wan/box.h"
#include "tests/lab/wan/failure.h"
#include "tests/lab/wan/programs.h"

namespace lockstep::wan {
namespace {

std::string program_of(Library library, const std::string& folder) {
  return folder + (library == Library::kGloo ? "/yardstick_gloo" : "/yardstick_open_mpi");
}

bool in_path(const std::string& program) {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (::access((std::filesystem::path(folder) / program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

// For the files by which the processes of a library find each other.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    if (::mkdtemp(path_.data()) == nullptr) throw Failure(kExitFailed, "cannot make the folder " + path_);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_ = std::filesystem::temp_directory_path() / "lockstep-wan-XXXXXX";
};

class YardstickRun {
 public:
  YardstickRun(Library library, const YardstickOptions& options, const Topology& topology)
      : library_(library), options_(options), programs_(must(Programs::make())), box_(must(Box::make(topology))) {}

  Calls run() {
    if (!options_.congestion_control.empty()) set_congestion_control();
    box_->start();
    const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(options_.limit.ns);
    wait_for(must(programs_->start(box_->host(1), words())), end);
    return best();
  }

 private:
  using Clock = std::chrono::steady_clock;

  // By the route: a namespace may have any congestion control by route or by socket, but not as its default.
  void set_congestion_control() {
    const auto end = Clock::now() + std::chrono::seconds(10);
    for (std::uint32_t host = 0; host < box_->topology().hosts(); ++host) {
      const std::vector<std::string> change = {"ip",      "route",
                                               "change",  "10.77.0.0/24",
                                               "dev",     "wan0",
                                               "proto",   "kernel",
                                               "scope",   "link",
                                               "src",     address_of(host),
                                               "congctl", options_.congestion_control};
      wait_for(must(programs_->start(box_->host(host), change)), end);
    }
  }

  [[nodiscard]] std::vector<std::string> words() const {
    std::vector<std::string> networks;
    std::vector<std::string> slots;
    for (std::uint32_t host = 1; host <= box_->topology().peers; ++host) {
      networks.push_back(address_of(host) + "=" + box_->host(host).path());
      slots.push_back(address_of(host) + ":1");
    }
    const std::string in_a_line = fmt::to_string(fmt::join(networks, ","));
    std::vector<std::string> words = {"env", "TMPDIR=" + folder_.path()};
    const auto add = [&](std::initializer_list<std::string> more) { words.insert(words.end(), more); };
    if (library_ == Library::kOpenMpi) {
      add({std::string(kNetworksVariable) + "=" + in_a_line, "OMPI_MCA_btl_base_warn_component_unused=0",
           "OMPI_MCA_plm_rsh_agent=" + std::filesystem::read_symlink("/proc/self/exe").string() + " enter",
           "OMPI_MCA_plm_rsh_no_tree_spawn=1", "OMPI_MCA_orte_tmpdir_base=" + folder_.path()});
      add({"mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--host",
           fmt::to_string(fmt::join(slots, ",")), "-n", fmt::to_string(slots.size())});
      for (const char* const facts :
           {"pml ob1", "btl tcp,self", "btl_tcp_if_include wan0", "oob_tcp_if_include wan0"}) {
        std::istringstream fact(facts);
        std::string name;
        std::string value;
        fact >> name >> value;
        add({"--mca", name, value});
      }
    }
    add({program_of(library_, options_.folder), fmt::to_string(options_.bytes), "--each", "--calls",
         fmt::to_string(options_.calls), "--warmup", fmt::to_string(options_.warmup)});
    if (library_ == Library::kGloo) add({"-n", fmt::to_string(slots.size()), "--hosts", in_a_line});
    return words;
  }

  // What the program prints on stdout is its result. The destructor of the programs ends what is left on a failure.
  void wait_for(std::size_t who, Clock::time_point end) {
    for (bool over = false; !over;) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
      const Programs::Event event = programs_->next(milliseconds(std::max<std::int64_t>(left.count(), 0)));
      if (const auto* const said = std::get_if<Programs::Said>(&event)) {
        if (said->error && said->line.find_first_not_of(" -*\t") != std::string::npos) last_error_ = said->line;
        if (!said->error) said_.push_back(said->line);
      } else if (const auto* const ended = std::get_if<Programs::Ended>(&event)) {
        const int code = exit_code_of(ended->status);
        over = over || ended->who == who;
        if (code != 0) throw Failure(kExitFailed, fmt::format("ended with {}: {}", code, last_error_));
      } else if (std::holds_alternative<Programs::Interrupted>(event)) {
        throw Failure(kExitInterrupted, "interrupted");
      } else if (std::holds_alternative<Programs::TimedOut>(event)) {
        throw Failure(kExitFailed, fmt::format("was not done after {} s", options_.limit.ns / 1'000'000'000));
      }
    }
  }

  // Lines "BYTES MICROSECONDS BUSBW ERRORS [ALGORITHM]", each followed by "calls MICROSECONDS ...".
  [[nodiscard]] Calls best() const {
    std::vector<Calls> all;
    for (const std::string& line : said_) {
      std::istringstream words(line);
      std::string word;
      words >> word;
      if (word == "calls" && !all.empty()) {
        for (double us = 0; words >> us;) all.back().seconds.push_back(us * 1e-6);
        std::sort(all.back().seconds.begin(), all.back().seconds.end());
        continue;
      }
      double us = 0;
      double busbw = 0;
      std::uint64_t errors = 0;
      if (!(words >> us >> busbw >> errors)) throw Failure(kExitFailed, "printed what is no result: " + line);
      if (errors != 0) throw Failure(kExitFailed, fmt::format("{} elements of the result are wrong", errors));
      all.emplace_back();
      words >> all.back().algorithm;
    }
    std::erase_if(all, [](const Calls& calls) { return calls.seconds.empty(); });
    if (all.empty()) throw Failure(kExitFailed, "printed no result");
    return *std::min_element(all.begin(), all.end(),
                             [](const Calls& one, const Calls& other) { return one.median() < other.median(); });
  }

  const Library library_;
  const YardstickOptions& options_;
  const TemporaryFolder folder_;
  const std::unique_ptr<Programs> programs_;  // before the box: its thread knows nothing of signals
  const std::unique_ptr<Box> box_;
  std::vector<std::string> said_;
  std::string last_error_ = "no word on stderr";
};

}  // namespace

std::string name_of(Library library) { return library == Library::kGloo ? "Gloo" : "Open MPI"; }

double Calls::median() const { return (seconds[(seconds.size() - 1) / 2] + seconds[seconds.size() / 2]) / 2; }

std::optional<std::string> missing(Library library, const std::string& folder) {
  const std::string program = program_of(library, folder);
  const bool gloo = library == Library::kGloo;
  if (::access(program.c_str(), X_OK) != 0) {
    return fmt::format("{} was not built: install {} and configure again", program,
                       gloo ? "libgloo-dev" : "libopenmpi-dev");
  }
  if (!gloo && !in_path("mpirun")) return "there is no mpirun: install openmpi-bin";
  return std::nullopt;
}

Calls run_yardstick(Library library, const YardstickOptions& options, const Topology& topology) {
  return YardstickRun(library, options, topology).run();
}

}  // namespace lockstep::wan
