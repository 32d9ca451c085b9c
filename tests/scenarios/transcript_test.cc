// Runs every transcript of this folder. A transcript is a text: comments (#), settings before the first command,
// commands (>), and after each command what the applications see until the next one, host by host. Times do not appear.
//
//   peers = 3                          settings: those of a plan file
//   > start a b c                      hosts are letters
//   > run 2s
//   > a b: all-reduce tag 5 count 100 f32 sum [ring] [no retry] [minimum 2] [timeout 1s]
//        [watch] [drift 7]             its program's state is watched; a byte or a value of it is another one
//   > c: broadcast tag 6 count 7 u8 root a         also reduce-scatter, all-gather, barrier
//   > a b: sync tag 3 bytes 3000000 content 7 revision 4 [sends] [receives] [staged] [timeout 1s]
//   > a: publish tag 3 bytes ...       > c: prefetch tag 3 bytes ...       with the words of a sync; of both:
//        [changed 1000]                other bytes at the begin of the first tensor
//        [prefetched]                  in the memory that its last prefetch has left
//   > a: admit [at least 2] [timeout 1s]    > a: leave    > a: stop 5 why not
//   > crash a    > vanish a    > stall a    > wake a    > cut a b    > cut both a b    > heal a b    > reset a b    > silence a b
//   > revoke a                         the run token of its process; the host gets another one
//   > kernels a 1000                   from now on they take so many times as long
//
// "*" is the coordinator where a host is asked for. `--update` writes what happened into the files.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "sim/plan/plan_file.h"
#include "tests/support/cluster.h"

namespace lockstep {
namespace {

bool update = false;

using Words = std::vector<std::string>;

Words words_of(const std::string& line) {
  std::istringstream in(line);
  return {std::istream_iterator<std::string>(in), {}};
}

std::uint32_t host_of(const std::string& word) {
  if (word == "*") return 0;
  return word.size() == 1 && word[0] >= 'a' && word[0] <= 'z' ? static_cast<std::uint32_t>(word[0] - 'a' + 1) : 99;
}

Duration duration_of(const std::string& word) {
  char* unit = nullptr;
  const std::int64_t n = std::strtoll(word.c_str(), &unit, 10);
  const std::string u = unit;
  if (u == "s") return seconds(n);
  if (u == "ms") return milliseconds(n);
  if (u == "us") return microseconds(n);
  throw std::runtime_error("a time needs a unit: " + word);
}

class Transcript {
 public:
  explicit Transcript(const std::string& settings) {
    // Plain by default: whatever a transcript is about, it says.
    std::string text = "seed = 1\nheartbeat_ns = 100000000\nstripes = 1\nshort_permille = 0\npieces_permille = 0\n";
    for (const std::string& line : lines_of(settings)) {
      const std::string key = line.substr(0, line.find(' '));
      const auto at = text.find("\n" + key + " ");
      if (at != std::string::npos && !key.empty()) text.erase(at + 1, text.find('\n', at + 1) - at);
      text += line + "\n";
    }
    const auto plan = sim::plan_from_text(text);
    if (!plan) throw std::runtime_error(plan.error().text + "\n" + text);
    plan_ = *plan;
    sim::WorldOptions options;
    options.scripted = true;
    options.observe = [this](std::uint32_t host, const std::string& line) { seen_[host].push_back(line); };
    world_ = std::make_unique<sim::World>(plan_, options);
  }

  std::vector<std::string> command(const std::string& line) {
    seen_.clear();
    run(words_of(line));
    std::vector<std::string> lines;
    for (const auto& [host, what] : seen_) {
      for (const std::string& text : what) {
        lines.push_back((host == 0 ? std::string("coordinator") : std::string(1, static_cast<char>('a' + host - 1))) +
                        " " + text);
      }
    }
    if (world_->failure() && !std::exchange(told_, true))
      lines.push_back("BROKEN " + world_->failure()->promise + ": " + world_->failure()->text);
    return lines;
  }

  static std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }

 private:
  void run(Words words) {
    const auto colon = std::find_if(words.begin(), words.end(), [](const auto& word) { return word.ends_with(':'); });
    if (colon != words.end()) {
      colon->pop_back();
      const Words hosts(words.begin(), colon + 1);
      const Words what(colon + 1, words.end());
      for (const std::string& host : hosts) call(host_of(host), what);
      return;
    }
    const std::string verb = words.at(0);
    const auto each = [&](sim::Fault fault) {
      for (std::size_t i = 1; i < words.size(); ++i) begin({.fault = fault, .a = host_of(words[i])});
    };
    if (verb == "start") {
      for (std::size_t i = 1; i < words.size(); ++i) world_->start(host_of(words[i]));
    } else if (verb == "run") {
      world_->run_for(duration_of(words.at(1)));
    } else if (verb == "crash") {
      each(sim::Fault::kCrash);
    } else if (verb == "revoke") {
      for (std::size_t i = 1; i < words.size(); ++i) {
        begin({.fault = sim::Fault::kAbandon, .a = host_of(words[i]), .number = 1});
      }
    } else if (verb == "vanish") {
      each(sim::Fault::kVanish);
    } else if (verb == "stall") {
      each(sim::Fault::kStall);
    } else if (verb == "wake") {
      end(sim::Fault::kStall, host_of(words.at(1)), 0);
    } else if (verb == "cut" && words.at(1) == "both") {
      begin({.fault = sim::Fault::kCutBoth, .a = host_of(words.at(2)), .b = host_of(words.at(3))});
    } else if (verb == "cut") {
      begin({.fault = sim::Fault::kCut, .a = host_of(words.at(1)), .b = host_of(words.at(2))});
    } else if (verb == "heal") {
      end(sim::Fault::kCut, host_of(words.at(1)), host_of(words.at(2)));
      end(sim::Fault::kCutBoth, host_of(words.at(1)), host_of(words.at(2)));
    } else if (verb == "kernels") {
      begin({.fault = sim::Fault::kKernels, .a = host_of(words.at(1)), .number = std::stoull(words.at(2))});
    } else if (verb == "reset") {
      begin({.fault = sim::Fault::kReset, .a = host_of(words.at(1)), .b = host_of(words.at(2))});
    } else if (verb == "silence") {
      begin({.fault = sim::Fault::kSilence, .a = host_of(words.at(1)), .b = host_of(words.at(2))});
    } else {
      throw std::runtime_error("no such command: " + verb);
    }
  }

  void begin(const sim::Entry& entry) {
    if (entry.a > plan_.peers || entry.b > plan_.peers) throw std::runtime_error("no such host");
    faults_.emplace_back(entry, world_->begin_fault(entry));
  }
  void end(sim::Fault fault, std::uint32_t a, std::uint32_t b) {
    for (const auto& [entry, index] : faults_) {
      if (entry.fault == fault && entry.a == a && entry.b == b) world_->end_fault(index);
    }
  }

  void call(std::uint32_t host, const Words& what) {
    if (host > plan_.peers) throw std::runtime_error("no such host");
    const auto after = [&](const std::string& word) -> std::optional<std::string> {
      const auto at = std::find(what.begin(), what.end(), word);
      return at == what.end() || at + 1 == what.end() ? std::nullopt : std::optional(*(at + 1));
    };
    const auto number = [&](const std::string& word, std::uint64_t otherwise) {
      const auto text = after(word);
      return text ? std::strtoull(text->c_str(), nullptr, 10) : otherwise;
    };
    const Duration timeout = after("timeout") ? duration_of(*after("timeout")) : Duration{0};
    const std::string verb = what.at(0);
    if (verb == "admit") {
      world_->admit(host, static_cast<std::uint32_t>(number("least", 1)), timeout);
      return;
    }
    if (verb == "leave") {
      world_->leave(host, timeout);
      return;
    }
    if (verb == "stop") {
      std::string why;
      for (std::size_t i = 2; i < what.size(); ++i) why += (i > 2 ? " " : "") + what[i];
      world_->stop(host, calls_.at({host, std::strtoull(what.at(1).c_str(), nullptr, 10)}), why);
      return;
    }
    if (verb == "sync" || verb == "publish" || verb == "prefetch") return share(host, what, number, timeout);
    ring::Request request;
    const std::map<std::string, wire::Collective> kinds = {{"all-reduce", wire::Collective::kAllReduce},
                                                           {"reduce-scatter", wire::Collective::kReduceScatter},
                                                           {"all-gather", wire::Collective::kAllGather},
                                                           {"broadcast", wire::Collective::kBroadcast},
                                                           {"barrier", wire::Collective::kBarrier}};
    request.collective = kinds.at(verb);
    for (std::uint8_t t = 0; t < kDataTypeCount; ++t) {
      if (std::find(what.begin(), what.end(), name_of(static_cast<DataType>(t))) != what.end())
        request.type = static_cast<DataType>(t);
    }
    for (std::uint8_t o = 0; o < kReduceOpCount; ++o) {
      if (std::find(what.begin(), what.end(), name_of(static_cast<ReduceOp>(o))) != what.end())
        request.op = static_cast<ReduceOp>(o);
    }
    if (std::find(what.begin(), what.end(), "ring") != what.end()) request.algorithm = wire::Algorithm::kRing;
    request.tag = Tag{number("tag", 0)};
    request.minimum_world = static_cast<std::uint32_t>(number("minimum", 1));
    request.timeout = timeout;
    const bool may_retry =
        request.collective == wire::Collective::kAllReduce || request.collective == wire::Collective::kBarrier;
    request.retry = may_retry && !after("no");
    if (after("root")) request.root = world_->peer_on(host_of(*after("root")));
    if (request.collective != wire::Collective::kBarrier) request.tensors.push_back({{}, {}, number("count", 0)});
    sim::App::Contents contents{.drift = number("drift", 0)};
    contents.watches = std::find(what.begin(), what.end(), "watch") != what.end();
    calls_[{host, request.tag.value}] = world_->launch(host, request, contents);
  }

  // Tensors of as many bytes as are said, all of one content.
  template <typename Number>
  void share(std::uint32_t host, const Words& what, const Number& number, Duration timeout) {
    const auto says = [&](const char* word) { return std::find(what.begin(), what.end(), word) != what.end(); };
    auto state = std::make_shared<state::Statement>();
    state->revision = number("revision", 0);
    state->staged = says("staged");
    if (says("sends")) state->strategy = state::Strategy::kSendOnly;
    if (says("receives")) state->strategy = state::Strategy::kReceiveOnly;
    state->manifest.tensors = {{"weights", DataType::kU8, number("bytes", 0), false},
                               {"moments", DataType::kU8, number("bytes", 0) / 2, false}};
    state->manifest.values = {{"step", state::ValueType::kUint}};
    state->values = {state->revision};
    ring::Request request;
    request.collective = wire::Collective::kSync;
    request.tag = Tag{number("tag", 0)};
    request.timeout = timeout;
    for (const state::TensorSpec& tensor : state->manifest.tensors) request.tensors.push_back({{}, {}, tensor.bytes()});
    request.state = state;
    sim::App::Contents contents{.drawn = number("content", 0), .changed = number("changed", 0)};
    if (says("prefetched")) contents.left_by = prefetched_.at(host);
    CallId& call = calls_[{host, request.tag.value}];
    if (what.at(0) == "sync") {
      call = world_->launch(host, request, contents);
    } else {
      const bool serves = what.at(0) == "publish";
      call = world_->share(host, serves ? sim::CallKind::kPublish : sim::CallKind::kPrefetch, request, contents);
      if (!serves) prefetched_[host] = call;
    }
  }

  sim::Plan plan_;
  std::unique_ptr<sim::World> world_;
  bool told_ = false;  // whether the transcript shows the broken promise
  std::map<std::uint32_t, std::vector<std::string>> seen_;
  std::vector<std::pair<sim::Entry, std::uint64_t>> faults_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, CallId> calls_;  // by host and tag: the last one
  std::map<std::uint32_t, CallId> prefetched_;                       // by host: the last one
};

// Writes the transcript again, with the actual lines instead of the expected ones.
std::string perform(const std::string& text) {
  std::string settings;
  std::string out;
  std::optional<Transcript> transcript;
  for (const std::string& line : Transcript::lines_of(text)) {
    const bool comment = line.empty() || line[0] == '#';
    if (line.starts_with("> ")) {
      if (!transcript) transcript.emplace(settings);
      out += line + "\n";
      for (const std::string& seen : transcript->command(line.substr(2))) out += seen + "\n";
    } else if (comment) {
      out += line + "\n";
    } else if (!transcript) {
      settings += line + "\n";
      out += line + "\n";
    }
  }
  return out;
}

class Transcripts : public testing::TestWithParam<std::string> {};

TEST_P(Transcripts, GivesItsTrace) {
  const std::filesystem::path path =
      std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "tests/scenarios" / (GetParam() + ".txt");
  std::ifstream in(path);
  const std::string expected((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const std::string got = perform(expected);
  if (update && got != expected) {
    std::ofstream(path) << got;
    return;
  }
  EXPECT_EQ(got, expected) << "lockstep_scenario_tests --update rewrites " << path;
}

std::vector<std::string> all_transcripts() {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(LOCKSTEP_SOURCE_DIR "/tests/scenarios")) {
    if (file.path().extension() == ".txt" && file.path().filename() != "CMakeLists.txt")
      names.push_back(file.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

INSTANTIATE_TEST_SUITE_P(Files, Transcripts, testing::ValuesIn(all_transcripts()),
                         [](const auto& transcript) { return transcript.param; });

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  lockstep::update = argc > 1 && std::string(argv[1]) == "--update";
  return RUN_ALL_TESTS();
}
