#include "tests/lab/wan/measurement.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <memory>
#include <numeric>
#include <optional>
#include <variant>

#include "tests/lab/wan/box.h"
#include "tests/lab/wan/failure.h"
#include "tests/lab/wan/statistics.h"
#include "transport/event_log.h"

namespace lockstep::wan {
namespace {

// Rank 0's words are the result, wherever it runs: the others say nothing.
class Measurement {
 public:
  Measurement(const BenchOptions& options, Programs& programs, const Topology& topology, std::uint64_t bytes)
      : options_(options), programs_(programs), topology_(topology), bytes_(bytes), box_(must(Box::make(topology))) {
    hosts_ = options.hosts;
    if (hosts_.empty()) {
      hosts_.resize(topology.peers);
      std::iota(hosts_.begin(), hosts_.end(), 1U);
    }
    if (options.resets > 0) disturbance_.emplace(options.resets, hosts_);
  }

  Measured run() {
    box_->start();
    std::vector<std::string> coordinator = {options_.lockstep, "coordinator", "--listen", address_of(0) + ":4000"};
    if (is_insecure()) coordinator.emplace_back("--insecure");
    coordinator_ = start(0, coordinator);
    const auto began = std::chrono::steady_clock::now();
    while (peers_.size() < hosts_.size() || left_ > 0) handle(programs_.next(left_since(began)));
    programs_.signal(coordinator_, SIGTERM);
    while (programs_.running(coordinator_)) programs_.next();
    const nlohmann::json result = nlohmann::json::parse(said_, nullptr, false);
    if (result.is_discarded()) throw Failure(kExitFailed, "`lockstep bench` has printed no result: " + said_);
    Measured measured;
    measured.timing = result.at("rows").at(0).at(in_place() ? "in_place" : "out_of_place");
    measured.lines = box_->forwarder().with_network([&](const Network& n) { return statistics_json(topology_, n); });
    measured.resets = box_->forwarder().resets();
    if (disturbance_) measured.effect = effect(measured);
    return measured;
  }

 private:
  // Of the time limit.
  [[nodiscard]] std::optional<Duration> left_since(std::chrono::steady_clock::time_point began) const {
    if (!options_.limit) return std::nullopt;
    const std::chrono::nanoseconds passed = std::chrono::steady_clock::now() - began;
    return nanoseconds(std::max<std::int64_t>(options_.limit->ns - passed.count(), 0));
  }

  [[nodiscard]] bool is_insecure() const { return options_.security == "insecure"; }
  [[nodiscard]] bool in_place() const { return options_.collective == "sync_state"; }

  [[nodiscard]] Effect effect(const Measured& measured) const {
    std::vector<double> calls;
    for (const double us : measured.timing.at("calls_us")) calls.push_back(us * 1e-6);
    return effect_of(calls, box_->forwarder().with_connections([&](const Connections& connections) {
      return disturbance_->hits(static_cast<std::uint32_t>(calls.size()), connections.resets());
    }));
  }

  std::size_t start(std::uint32_t host, const std::vector<std::string>& words) {
    return must(programs_.start(box_->host(host), words));
  }

  // One after the other, as the ring has the order in which they ask to join.
  void start_peer() {
    std::vector<std::string> words = {options_.lockstep, "bench", "--json"};
    const auto add = [&](const std::string& option, const auto& value) {
      words.insert(words.end(), {option, fmt::format("{}", value)});
    };
    add("--coordinator", token_.empty() ? address_of(0) + ":4000" : token_);
    if (is_insecure()) words.emplace_back("--insecure");
    add("--peers", hosts_.size());
    add("--collective", options_.collective);
    add("--only", in_place() ? "in" : "out");
    add("--begin", bytes_);
    add("--end", bytes_);
    add("--iters", options_.iterations);
    add("--warmup", options_.warmup);
    if (!options_.congestion_control.empty()) add("--congestion-control", options_.congestion_control);
    if (disturbance_) words.emplace_back("--say-calls");
    words.insert(words.end(), options_.more.begin(), options_.more.end());
    ++left_;
    peers_.push_back(start(hosts_[peers_.size()], words));
  }

  void handle(const Programs::Event& event) {
    if (const auto* const said = std::get_if<Programs::Said>(&event)) {
      hear(*said);
    } else if (const auto* const ended = std::get_if<Programs::Ended>(&event)) {
      if (ended->who == coordinator_) throw Failure(kExitFailed, "the coordinator has ended: " + last_error_);
      const int code = exit_code_of(ended->status);
      if (code != 0) throw Failure(kExitFailed, fmt::format("a peer has ended with {}: {}", code, last_error_));
      --left_;
    } else if (std::holds_alternative<Programs::Interrupted>(event)) {
      throw Failure(kExitInterrupted, "interrupted");
    } else if (std::holds_alternative<Programs::TimedOut>(event)) {
      throw Failure(kExitFailed, fmt::format("was not done after {} s", options_.limit->ns / 1'000'000'000));
    }
  }

  void hear(const Programs::Said& said) {
    const auto call = disturbance_ && said.error && said.who != coordinator_ ? call_in(said.line) : std::nullopt;
    if (call) {
      box_->forwarder().with_connections([&](Connections& connections) { disturbance_->on_call(*call, connections); });
      return;
    }
    const bool coordinator = said.who == coordinator_;
    constexpr std::string_view kConnectWith = "peers connect with ";
    if (coordinator && said.line.starts_with(kConnectWith)) token_ = said.line.substr(kConnectWith.size());
    const bool listens = coordinator && !said.error && (options_.security != "tls" || !token_.empty());
    const bool waits = coordinator && said.line.find(" peer-waiting ") != std::string::npos;
    // The coordinator's log tells of so many newcomers each minute: the rest begins together, in any order.
    const bool last_told = waits && peers_.size() >= transport::EventLog::kLinesPerMinute;
    while ((listens || waits) && peers_.size() < hosts_.size()) {
      start_peer();
      if (!last_told) break;
    }
    if (said.error && !(waits || listens)) last_error_ = said.line;
    if (!said.error && std::ranges::find(peers_, said.who) != peers_.end()) said_ += said.line + "\n";
  }

  const BenchOptions& options_;
  Programs& programs_;
  const Topology& topology_;
  const std::uint64_t bytes_;
  std::unique_ptr<Box> box_;
  std::vector<std::uint32_t> hosts_;  // by rank
  std::optional<Disturbance> disturbance_;
  std::size_t coordinator_ = 0;
  std::string token_;               // of the run; empty: not known, or without TLS
  std::vector<std::size_t> peers_;  // those that have been started
  std::uint32_t left_ = 0;          // of those started, that have not ended
  std::string said_;
  std::string last_error_;
};

}  // namespace

Measured measure(const BenchOptions& options, Programs& programs, const Topology& topology, std::uint64_t bytes) {
  return Measurement(options, programs, topology, bytes).run();
}

}  // namespace lockstep::wan
