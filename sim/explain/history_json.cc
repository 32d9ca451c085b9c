#include "sim/explain/history_json.h"

#include <nlohmann/json.hpp>

#include "sim/explain/slice.h"
#include "sim/workload/text.h"

namespace lockstep::sim {
namespace {

using nlohmann::json;

json moment_or_null(MomentId id) { return id == kNoMoment ? json() : json(id); }
json lane_or_null(std::uint32_t lane) { return lane == kNoLane ? json() : json(lane); }

constexpr Because kEveryBecause[] = {Because::kFault, Because::kMessage, Because::kKernel, Because::kProgram,
                                     Because::kState, Because::kStream,  Because::kTimer,  Because::kView};

template <typename T, typename F>
json list_of(const std::vector<T>& list, F&& each) {
  json out = json::array();
  for (const T& entry : list) out.push_back(each(entry));
  return out;
}

json json_of(const Lane& lane) {
  return {{"name", lane.name},         {"host", lane.host},         {"peer", hex(lane.peer.high) + hex(lane.peer.low)},
          {"began_ns", lane.began_ns}, {"ended_ns", lane.ended_ns}, {"killed", lane.killed}};
}

json json_of(const Moment& moment) {
  json causes = json::array();
  for (const Cause& cause : moment.causes) causes.push_back({cause.moment, name_of(cause.because)});
  return {{"at_ns", moment.at_ns}, {"event", moment.event},   {"lane", lane_or_null(moment.lane)},
          {"ins", moment.ins},     {"outs", moment.outs},     {"spark", name_of(moment.spark)},
          {"causes", causes},      {"before", moment.before}, {"subjects", moment.subjects},
          {"after", moment.after}, {"quiet", moment.quiet}};
}

json json_of(const Sent& message) {
  return {{"type", message.type},
          {"text", message.text},
          {"from", moment_or_null(message.from)},
          {"to", moment_or_null(message.to)},
          {"from_lane", message.from_lane},
          {"to_lane", lane_or_null(message.to_lane)},
          {"sent_ns", message.sent_ns},
          {"received_ns", message.received_ns}};
}

json json_of(const Bar& bar) {
  return {{"lane", bar.lane},
          {"call", bar.call},
          {"what", bar.what},
          {"tag", bar.tag ? json(bar.tag->value) : json()},
          {"round", bar.round},
          {"status", bar.status},
          {"outcome", bar.outcome},
          {"with", bar.with},
          {"made", moment_or_null(bar.made)},
          {"ended", moment_or_null(bar.ended)}};
}

json json_of(const Installed& view) {
  return {{"lane", view.lane},
          {"moment", view.moment},
          {"number", view.number},
          {"cohort", view.cohort},
          {"members", view.members}};
}

json json_of(const FaultSpan& fault) {
  return {{"name", fault.name},   {"text", fault.text},     {"entry", fault.entry},       {"hosts", fault.hosts},
          {"lossy", fault.lossy}, {"moment", fault.moment}, {"began_ns", fault.began_ns}, {"ended_ns", fault.ended_ns}};
}

json json_of(const State& state) {
  json out = json::array();
  for (const auto& [name, value] : state) out.push_back({name, value});
  return out;
}

}  // namespace

json to_json(const History& history, const std::vector<MomentId>& slice, const std::string& replay) {
  const auto each = [](const auto& entry) { return json_of(entry); };
  json out = {{"version", 1},
              {"seed", history.seed},
              {"replay", replay},
              {"healed_ns", history.healed_ns},
              {"ended_ns", history.ended_ns},
              {"slice", slice},
              {"subjects", history.subjects},
              {"lanes", list_of(history.lanes, each)},
              {"moments", list_of(history.moments, each)},
              {"messages", list_of(history.messages, each)},
              {"calls", list_of(history.calls, each)},
              {"views", list_of(history.views, each)},
              {"faults", list_of(history.faults, each)},
              {"states", list_of(history.states, each)}};
  out["distances"] = json::object();
  for (const Because because : kEveryBecause) out["distances"][std::string(name_of(because))] = distance_of(because);
  out["radius"] = kSliceRadius;
  out["failure"] = nullptr;
  if (history.failure) {
    out["failure"] = {{"promise", history.failure->promise},
                      {"text", history.failure->text},
                      {"at_ns", history.failure->at_ns},
                      {"event", history.failure->event},
                      {"moment", history.failed}};
  }
  return out;
}

}  // namespace lockstep::sim
