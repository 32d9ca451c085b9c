#include "sim/cli/replay_recording.h"

#include <fmt/chrono.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/base/assert.h"
#include "core/base/text.h"
#include "core/flight/recording.h"
#include "core/trace/event.h"
#include "sim/cli/command.h"
#include "sim/flight/incident.h"
#include "sim/flight/player.h"
#include "sim/flight/tell.h"
#include "sim/workload/text.h"

namespace lockstep::sim {
namespace {

std::vector<std::byte> read_bytes(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (error) throw UsageError(path + ": " + error.message());
  if (size > flight::kMaxRecordingBytes) {
    throw UsageError(fmt::format("{}: larger than {} bytes: no recording is", path, flight::kMaxRecordingBytes));
  }
  std::ifstream file(path, std::ios::binary);
  std::vector<std::byte> bytes(size);
  if (!file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size))) {
    throw UsageError(path + ": cannot be read");
  }
  return bytes;
}

std::string who(const flight::Recording& recording) {
  if (const auto* peer = std::get_if<peer::PeerOptions>(&recording.options)) {
    return "peer " + trace::short_name(peer->id, plain(peer->name));
  }
  return "a coordinator";
}

std::string wall_clock(std::int64_t ns) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(static_cast<std::time_t>(ns / 1'000'000'000)));
}

// Events that happen all the time, and are no news by themselves.
bool is_routine(trace::Kind kind) {
  using trace::Kind;
  return kind == Kind::kProposed || kind == Kind::kInstalled || kind == Kind::kCommitted || kind == Kind::kViewChanged;
}

// Counts inputs, and prints the selected ones.
class Onlooker final : public PlayWitness {
 public:
  enum class Prints : std::uint8_t { kNothing, kNews, kAll };
  explicit Onlooker(Prints prints) : prints_(prints) {}

  void given(std::uint64_t input, Duration at, const flight::Record<peer::Input>& record) override {
    tell(input, at, record);
  }
  void given(std::uint64_t input, Duration at, const flight::Record<coordinator::Input>& record) override {
    tell(input, at, record);
  }
  void answered(const peer::Effects& effects) override { tell(effects); }
  void answered(const coordinator::Effects& effects) override { tell(effects); }

  [[nodiscard]] std::uint64_t input() const { return input_; }
  [[nodiscard]] std::uint64_t unsaid() const { return news_ - std::min(news_, kMostNews); }

 private:
  static constexpr std::uint64_t kMostNews = 100;

  void say(const std::string& what) const {
    print_line(fmt::format("#{:<6} {:>12}  {}", input_, text_of(Instant{at_.ns}), what));
  }
  template <typename Record>
  void tell(std::uint64_t input, Duration at, const Record& record) {
    input_ = input;
    at_ = at;
    if (prints_ == Prints::kAll) say(text_of(record));
  }
  template <typename Effects>
  void tell(const Effects& effects) {
    for (const auto& effect : effects) {
      const auto* event = std::get_if<trace::Event>(&effect);
      if (prints_ == Prints::kAll) {
        print_line("                       -> " + text_of(effect));
      } else if (prints_ == Prints::kNews && event != nullptr && !is_routine(event->kind)) {
        if (++news_ <= kMostNews) say(trace::to_line(*event));
      }
    }
  }

  Prints prints_;
  std::uint64_t input_ = 0;
  Duration at_;
  std::uint64_t news_ = 0;
};

std::string hash_text(std::optional<std::uint32_t> hash) { return hash ? fmt::format("{:08x}", *hash) : "no effects"; }

std::string span_of(const Played& played) {
  return fmt::format("from {} to {}", text_of(Instant{played.from.ns}), text_of(Instant{played.to.ns}));
}

nlohmann::json to_json(const flight::Recording& recording, const Played& played) {
  nlohmann::json json = {{"by", who(recording)},
                         {"lockstep", plain(recording.version)},
                         {"reason", plain(recording.reason)},
                         {"written_ns", recording.written},
                         {"first_input", played.first},
                         {"from_birth", recording.before == 0},
                         {"inputs", played.inputs},
                         {"effects", played.effects},
                         {"same", !played.difference}};
  if (const auto& difference = played.difference) {
    json["difference"] = {{"input", difference->input},
                          {"at_ns", difference->at.ns},
                          {"what", difference->what},
                          {"given", difference->given},
                          {"expected", hash_text(difference->expected)},
                          {"actual", hash_text(difference->actual)},
                          {"effects", difference->effects}};
  }
  return json;
}

void introduce(const flight::Recording& recording) {
  fmt::print("recorded by {}, Lockstep {}, written {}: {}\n", who(recording), plain(recording.version),
             wall_clock(recording.written), plain(recording.reason));
  if (recording.before > 0) {
    fmt::print("{} earlier inputs have been overwritten; it begins with the state after them\n", recording.before);
  }
}

void explain(const Difference& difference) {
  fmt::print(stderr, "different at input {}, {}: {}\n  given: {}\n  then: {}; now: {}\n", difference.input,
             text_of(Instant{difference.at.ns}), difference.what, difference.given, hash_text(difference.expected),
             hash_text(difference.actual));
  for (const std::string& effect : difference.effects) fmt::print(stderr, "  now -> {}\n", effect);
}

struct Playing {
  const RecordingFlags& flags;
  const flight::Recording& recording;
  const Onlooker& onlooker;
};

// A broken assertion ends this process, as it may have ended the recorded one.
void say_where_it_broke(void* about) {
  const auto& [flags, recording, onlooker] = *static_cast<const Playing*>(about);
  std::fflush(stdout);
  if (recording.cut && onlooker.input() == recording.before + recording.inputs) {
    fmt::print(stderr, "the same as then\nlockstep sim replay {}\n", flags.file);
  } else {
    fmt::print(
        stderr,
        "different at input {}: the recorded machine came back from it\nlockstep sim replay {} --until {} --watch\n",
        onlooker.input(), flags.file, onlooker.input());
  }
  std::_Exit(kExitCrash);
}

int make_plan(const flight::Recording& recording, const RecordingFlags& flags) {
  const auto incident = incident_of(recording);
  if (!incident) throw UsageError(flags.file + ": " + incident.error().text);
  std::ofstream file(flags.plan);
  file << to_text(*incident);
  file.close();
  if (!file) throw UsageError(flags.plan + ": cannot be written");
  const Plan& plan = incident->plan;
  fmt::print("{}, {} of them from the beginning; {}; {} of simulated time\nwhat it does not tell:\n",
             counted(plan.peers, "host"), plan.founders, counted(plan.entries.size(), "event", "events"),
             text_of(Instant{plan.end.safety.ns}));
  for (const std::string& note : incident->notes) fmt::print("- {}\n", note);
  fmt::print("lockstep sim replay {}\n", flags.plan);
  return kExitPass;
}

}  // namespace

bool holds_recording(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error) && !error) return false;  // nor is a device asked
  if (error) throw UsageError(path + ": " + error.message());
  std::ifstream file(path, std::ios::binary);
  if (!file) throw UsageError(path + ": " + std::strerror(errno));
  std::array<char, 16> first{};  // a recording's are not all text
  file.read(first.data(), first.size());
  const auto seen = static_cast<std::size_t>(file.gcount());
  if (flight::is_recording(std::as_bytes(std::span(first).first(seen)))) return true;
  if (std::find(first.begin(), first.begin() + seen, '\0') != first.begin() + seen) {
    throw UsageError(path + ": neither a plan nor a flight recording: it begins as neither");
  }
  return false;
}

int replay_recording(const RecordingFlags& flags) {
  const auto recording = flight::decode(read_bytes(flags.file));
  if (!recording) throw UsageError(flags.file + ": " + recording.error().text);
  if (!flags.plan.empty()) return make_plan(*recording, flags);
  if (!flags.json) introduce(*recording);
  if (flags.until == 0 && recording->cut) {
    fmt::print(stderr, "{} did not come back from input {}, the last one\n", who(*recording),
               recording->before + recording->inputs);
  }
  using Prints = Onlooker::Prints;
  Onlooker onlooker(flags.json ? Prints::kNothing : flags.watch ? Prints::kAll : Prints::kNews);
  Playing playing{flags, *recording, onlooker};
  const LastWords words(say_where_it_broke, &playing);
  const auto played = play(*recording, {flags.until, &onlooker});
  if (!played) throw UsageError(flags.file + ": " + played.error().text);
  if (onlooker.unsaid() > 0) fmt::print("and {} more like these: --watch tells all\n", onlooker.unsaid());
  if (flags.json) {
    fmt::print("{}\n", to_json(*recording, *played).dump());
  } else if (!played->difference) {
    fmt::print("{}, {}, {}: the same{}\n", counted(played->inputs, "input"), counted(played->effects, "effect"),
               span_of(*played), played->came_back ? ", but for the end: now the machine comes back from it" : "");
  }
  std::fflush(stdout);
  if (!played->difference && !played->thrown.empty()) {
    fmt::print(stderr, "the machine throws, as then: {}\nlockstep sim replay {}\n", played->thrown, flags.file);
    return kExitCrash;
  }
  if (!played->difference) return kExitPass;
  explain(*played->difference);
  fmt::print(stderr, "lockstep sim replay {} --until {} --watch\n", flags.file, played->difference->input);
  return kExitNondeterminism;
}

}  // namespace lockstep::sim
