#include "sim/explain/perfetto.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace lockstep::sim {
namespace {

using nlohmann::json;

constexpr double kMomentUs = 1;  // a slice needs a length, or no arrow can end in it
constexpr auto kCounters = std::to_array<std::string_view>({"calls", "rounds", "streams", "queued bytes"});
constexpr int kSteps = 1;  // threads of a process: what it does, and its calls
constexpr int kCalls = 2;

double us(std::int64_t ns) { return static_cast<double>(ns) * 1e-3; }

class Writer {
 public:
  explicit Writer(const History& history) : history_(history), nemesis_(history.lanes.size()) {}

  json write() {
    for (std::size_t lane = 0; lane < history_.lanes.size(); ++lane) name(lane, history_.lanes[lane].name);
    name(nemesis_, "faults");
    for (std::size_t id = 0; id < history_.moments.size(); ++id) moment(id);
    for (std::size_t i = 0; i < history_.messages.size(); ++i) arrow(i);
    for (std::size_t i = 0; i < history_.calls.size(); ++i) call(i);
    for (const Installed& view : history_.views) {
      add({{"ph", "i"}, {"s", "p"}, {"name", "view " + std::to_string(view.number)}}, view.lane, kSteps,
          history_.moments[view.moment].at_ns);
    }
    for (std::size_t i = 0; i < history_.faults.size(); ++i) fault(i);
    return {{"displayTimeUnit", "ns"}, {"traceEvents", std::move(events_)}};
  }

 private:
  void add(json event, std::size_t process, int thread, std::int64_t at_ns) {
    event["pid"] = process;
    event["tid"] = thread;
    event["ts"] = us(at_ns);
    events_.push_back(std::move(event));
  }

  void name(std::size_t process, const std::string& text) {
    add({{"ph", "M"}, {"name", "process_name"}, {"args", {{"name", text}}}}, process, 0, 0);
    add({{"ph", "M"}, {"name", "process_sort_index"}, {"args", {{"sort_index", process}}}}, process, 0, 0);
    if (process == nemesis_) return;
    add({{"ph", "M"}, {"name", "thread_name"}, {"args", {{"name", "steps"}}}}, process, kSteps, 0);
    add({{"ph", "M"}, {"name", "thread_name"}, {"args", {{"name", "calls"}}}}, process, kCalls, 0);
  }

  void moment(std::size_t id) {
    const Moment& moment = history_.moments[id];
    if (moment.lane == kNoLane) return;
    const std::string title = !moment.outs.empty()  ? moment.outs.front()
                              : !moment.ins.empty() ? moment.ins.front()
                                                    : std::string(name_of(moment.spark));
    json args = {{"moment", id}, {"event", moment.event}, {"in", moment.ins}, {"out", moment.outs}};
    if (moment.spark == Spark::kFailure) {
      add({{"ph", "i"}, {"s", "g"}, {"name", title}, {"args", args}}, moment.lane, kSteps, moment.at_ns);
    }
    add({{"ph", "X"}, {"dur", kMomentUs}, {"name", title}, {"cat", name_of(moment.spark)}, {"args", args}}, moment.lane,
        kSteps, moment.at_ns);
    for (const auto& [name, value] : history_.states[moment.after]) counter(moment, name, value);
  }

  void counter(const Moment& moment, const std::string& name, const std::string& value) {
    if (std::find(kCounters.begin(), kCounters.end(), name) == kCounters.end()) return;
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc{} || end != value.data() + value.size()) return;
    add({{"ph", "C"}, {"name", name}, {"args", {{"value", number}}}}, moment.lane, kSteps, moment.at_ns);
  }

  void arrow(std::size_t index) {
    const Sent& message = history_.messages[index];
    if (message.from == kNoMoment || message.to == kNoMoment) return;
    const json both = {{"name", message.type}, {"cat", "message"}, {"id", index}};
    json begin = both;
    begin["ph"] = "s";
    add(std::move(begin), message.from_lane, kSteps, history_.moments[message.from].at_ns);
    json end = both;
    end["ph"] = "f";
    end["bp"] = "e";
    add(std::move(end), message.to_lane, kSteps, history_.moments[message.to].at_ns);
  }

  void call(std::size_t index) {
    const Bar& bar = history_.calls[index];
    if (bar.made == kNoMoment) return;
    const json both = {{"name", bar.what}, {"cat", "call"}, {"id", index}};
    json begin = both;
    begin["ph"] = "b";
    begin["args"] = {{"call", bar.call}, {"round", bar.round}, {"outcome", bar.outcome}};
    add(std::move(begin), bar.lane, kCalls, history_.moments[bar.made].at_ns);
    json end = both;
    end["ph"] = "e";
    add(std::move(end), bar.lane, kCalls,
        bar.ended == kNoMoment ? history_.ended_ns : history_.moments[bar.ended].at_ns);
  }

  void fault(std::size_t index) {
    const FaultSpan& fault = history_.faults[index];
    add({{"ph", "i"}, {"s", "g"}, {"name", fault.text}}, nemesis_, kSteps, fault.began_ns);
    if (fault.ended_ns == fault.began_ns) return;
    const json both = {{"name", fault.text}, {"cat", "fault"}, {"id", index}};
    json begin = both;
    begin["ph"] = "b";
    add(std::move(begin), nemesis_, kSteps, fault.began_ns);
    json end = both;
    end["ph"] = "e";
    add(std::move(end), nemesis_, kSteps, fault.ended_ns < 0 ? history_.ended_ns : fault.ended_ns);
  }

  const History& history_;
  std::size_t nemesis_;
  json events_ = json::array();
};

}  // namespace

json perfetto_of(const History& history) { return Writer(history).write(); }

}  // namespace lockstep::sim
