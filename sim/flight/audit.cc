#include "sim/flight/audit.h"

#include <algorithm>
#include <concepts>
#include <cstdlib>
#include <limits>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/base/assert.h"
#include "sim/checkers/p1_bytes.h"
#include "sim/checkers/s10_arguments.h"
#include "sim/checkers/s10_mismatch.h"
#include "sim/checkers/s1_one_outcome.h"
#include "sim/checkers/s5_one_root.h"
#include "sim/checkers/s6_membership.h"
#include "sim/checkers/s8_once.h"
#include "sim/words/words.h"
#include "sim/workload/text.h"

namespace lockstep::sim {
namespace {

using Json = nlohmann::json;

struct Malformed {
  std::string what;
};

// A PeerId or a Digest. `what`: for the text of the error.
template <typename T>
T hexadecimal(const Json& json, const char* what) {
  const std::string text = json.get<std::string>();
  const bool hex = text.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (text.size() != 32 || !hex) throw Malformed{"'" + text + "' is no " + what + ": 32 hexadecimal digits"};
  return {std::strtoull(text.substr(0, 16).c_str(), nullptr, 16), std::strtoull(text.substr(16).c_str(), nullptr, 16)};
}

PeerId peer_of(const Json& json) { return hexadecimal<PeerId>(json, "peer"); }

// A member that is a whole number: one that does not fit where it goes is refused, not cut.
class Whole {
 public:
  Whole(const Json& json, std::string name) : json_(json), name_(std::move(name)) {}
  template <std::unsigned_integral T>
  operator T() const {  // NOLINT(google-explicit-constructor): as a number of JSON would
    constexpr std::uint64_t kMost = std::numeric_limits<T>::max();
    if (json_.is_number_unsigned() && json_.get<std::uint64_t>() <= kMost) return json_.get<T>();
    throw Malformed{name_ + " is " + json_.dump() + ": no whole number from 0 to " + std::to_string(kMost)};
  }

 private:
  const Json& json_;
  std::string name_;
};

Whole whole(const Json& object, const char* name) { return {object.at(name), name}; }

std::vector<std::uint64_t> whole_list(const Json& object, const char* name) {
  std::vector<std::uint64_t> numbers;
  for (const Json& each : object.at(name)) numbers.push_back(Whole(each, name));
  return numbers;
}

template <typename T, typename... Name>
T one_of(const Json& json, std::uint8_t count, Name&&... name) {
  const std::string text = json.get<std::string>();
  if (const std::optional<T> value = named<T>(text, count, std::forward<Name>(name)...)) return *value;
  throw Malformed{"unknown word '" + text + "'"};
}

ring::Request request_of(const Json& json) {
  ring::Request request;
  request.collective = one_of<wire::Collective>(json.at("collective"), wire::kCollectiveCount);
  request.type = one_of<DataType>(json.at("type"), kDataTypeCount);
  request.op = one_of<ReduceOp>(json.at("op"), kReduceOpCount);
  request.tag = Tag{whole(json, "tag")};
  request.retry = json.at("retry");
  request.minimum_world = whole(json, "minimum_world");
  request.root = peer_of(json.at("root"));
  for (const std::uint64_t count : whole_list(json, "counts")) request.tensors.push_back({{}, {}, count});
  if (json.contains("blocks")) {
    for (const Json& block : json["blocks"]) request.blocks.push_back({peer_of(block.at("to")), whole(block, "count")});
  }
  if (json.contains("formats")) {
    request.formats.up = one_of<WireFormat>(json["formats"].at("up"), kWireFormatCount);
    request.formats.down = one_of<WireFormat>(json["formats"].at("down"), kWireFormatCount);
  }
  if (json.contains("algorithm")) request.algorithm = one_of<wire::Algorithm>(json["algorithm"], wire::kAlgorithmCount);
  if (json.contains("weight")) request.weight = json["weight"].get<float>();
  if (json.contains("state")) {
    const Json& state = json.at("state");
    auto statement = std::make_shared<state::Statement>();
    statement->revision = whole(state, "revision");
    statement->strategy = one_of<state::Strategy>(state.at("strategy"), state::kStrategyCount,
                                                  [](state::Strategy s) { return state::name_of(s); });
    request.state = std::move(statement);
  }
  return request;
}

peer::Outcome outcome_of(const Json& json) {
  peer::Outcome outcome;
  outcome.status = one_of<Status>(json.at("status"), kStatusCount, [](Status s) { return status_name(s); });
  outcome.text = json.value("text", std::string());
  outcome.view = ViewNumber{whole(json, "view")};
  outcome.world = whole(json, "world");
  if (json.contains("round")) {
    const Json& round = json.at("round");
    outcome.round = {CohortId{whole(round, "cohort")}, GroupId{whole(round, "group")}, Tag{whole(round, "tag")},
                     whole(round, "use")};
    outcome.attempt = Generation{whole(json, "attempt")};
    outcome.hash = whole(json, "hash");
    if (json.contains("algorithm"))
      outcome.way.algorithm = one_of<wire::Algorithm>(json["algorithm"], wire::kAlgorithmCount);
    if (json.contains("rates")) outcome.way.rates = json.at("rates").get<std::vector<std::uint32_t>>();
    outcome.retries = whole(json, "retries");
    outcome.bytes_sent = whole(json, "bytes_sent");
    outcome.bytes_received = whole(json, "bytes_received");
  }
  if (json.contains("contributors")) {
    std::vector<PeerId> contributors;
    for (const Json& peer : json.at("contributors")) contributors.push_back(peer_of(peer));
    outcome.contributors = std::make_shared<const std::vector<PeerId>>(std::move(contributors));
  }
  if (json.contains("state")) {
    const Json& state = json.at("state");
    outcome.revision = whole(state, "revision");
    outcome.root = hexadecimal<Digest>(state.at("root"), "digest");
    if (state.contains("lineage")) outcome.lineage = Lineage{whole(state, "lineage")};  // not in older journals
    outcome.state_defined = state.at("is_defined");
  }
  if (json.contains("blocks")) outcome.blocks = whole_list(json, "blocks");
  return outcome;
}

std::shared_ptr<const wire::View> view_of(const Json& json) {
  wire::View view;
  view.term = Term{whole(json, "term")};
  view.number = ViewNumber{whole(json, "view")};
  view.cohort = CohortId{whole(json, "cohort")};
  for (const Json& item : json.at("members")) {
    wire::Member member;
    member.id = peer_of(item.at("id"));
    member.group = GroupId{whole(item, "group")};
    member.gang = GangId{whole(item, "gang")};
    member.name = item.at("name");
    view.members.push_back(std::move(member));
  }
  return std::make_shared<const wire::View>(std::move(view));
}

CallKind kind_of(const std::string& name) {
  if (name == "connect") return CallKind::kConnect;
  if (name == "collective") return CallKind::kCollective;
  if (name == "admit") return CallKind::kAdmit;
  if (name == "leave") return CallKind::kLeave;
  if (name == "publish") return CallKind::kPublish;
  if (name == "prefetch") return CallKind::kPrefetch;
  if (name == "send") return CallKind::kSend;
  if (name == "recv") return CallKind::kReceive;
  throw Malformed{"unknown kind of call '" + name + "'"};
}

}  // namespace

class Audit::Reader {
 public:
  Reader(Witness& witness, const Json& json) : witness_(witness), json_(json) {}

  void read() {
    const std::string what = json_.at("what");
    if (what == "opened") {
      const std::uint32_t gang_size = whole(json_, "gang_size");
      witness_.gang_size = json_.at("gang") == 0 ? 1 : gang_size;
    } else if (what == "called") {
      called();
    } else if (what == "ended") {
      ended();
    } else if (what == "installed") {
      witness_.views.push_back(view_of(json_));
    } else if (what == "closed") {
      witness_.closed = true;
    } else if (what == "stopped") {
      witness_.stopped = json_.at("why").get<std::string>();
      if (witness_.stopped.empty()) throw Malformed{"why is empty"};
    } else {
      throw Malformed{"nothing is called '" + what + "'"};
    }
  }

 private:
  void called() {
    Call call;
    call.peer = witness_.id;
    call.id = CallId{whole(json_, "call")};
    call.kind = kind_of(json_.at("kind"));
    if (call.kind == CallKind::kCollective) call.request = request_of(json_);
    call.refused = json_.contains("refused");
    if (call.kind == CallKind::kAdmit) call.at_least = whole(json_, "at_least");
    if (!witness_.by_id.emplace(call.id.value, witness_.calls.size()).second) {
      throw Malformed{"a second call " + std::to_string(call.id.value)};
    }
    witness_.calls.push_back(std::move(call));
  }

  void ended() {
    const CallId id{whole(json_, "call")};
    peer::Outcome outcome = outcome_of(json_);
    const auto at = witness_.by_id.find(id.value);
    Call* call = at == witness_.by_id.end() ? nullptr : &witness_.calls[at->second];
    if (const Complaint complaint = check_once(call, witness_.id, id, outcome)) {
      witness_.wrong.push_back(*complaint);
    } else {
      LOCKSTEP_ASSERT(call != nullptr);  // or it had been wrong
      call->outcome = std::move(outcome);
    }
  }

  Witness& witness_;
  const Json& json_;
};

std::optional<Error> Audit::take(std::string_view line) {
  try {
    const Json json = Json::parse(line);
    const PeerId peer = peer_of(json.at("peer"));
    Witness& witness = witnesses_[peer];
    witness.id = peer;
    in_file_.insert(peer);
    Reader(witness, json).read();
    return {};
  } catch (const Json::exception& error) {
    return Error{Status::kInvalidArgument, std::string("no line of a journal: ") + error.what()};
  } catch (const Malformed& error) {
    return Error{Status::kInvalidArgument, error.what};
  }
}

void Audit::end_file(const std::string& cut) {
  for (const PeerId peer : std::exchange(in_file_, {})) {
    Witness& witness = witnesses_[peer];
    if (!witness.closed && witness.stopped.empty()) witness.stopped = cut;
  }
}

std::vector<Audit::Incomplete> Audit::incomplete() const {
  std::vector<Incomplete> all;
  for (const auto& [id, witness] : witnesses_) {
    if (!witness.stopped.empty()) all.push_back({id, witness.stopped});
  }
  return all;
}

// By which it took part in the round, or may have: a call of this tag whose round it never learnt.
Audit::Launches Audit::launches_of(const Witness& witness) {
  Launches launches;
  for (const Call& call : witness.calls) {
    if (call.kind != CallKind::kCollective) continue;
    if (call.outcome) launches.known.emplace(call.outcome->round, &call);
    if (!call.outcome || is_out(call.outcome->status)) launches.unknown.emplace(call.request.tag, &call);
  }
  return launches;
}

const Call* Audit::Launches::of(const RoundKey& round) const {
  if (const auto at = known.find(round); at != known.end()) return at->second;
  const auto at = unknown.find(round.tag);
  return at == unknown.end() ? nullptr : at->second;
}

std::vector<Failure> Audit::judge() const {
  std::vector<Failure> failures;
  const auto check = [&](const char* promise, const Complaint& complaint) {
    if (complaint) failures.push_back({promise, *complaint, 0, 0});
  };
  std::uint32_t gang_size = 1;
  for (const auto& [id, witness] : witnesses_) gang_size = std::max(gang_size, witness.gang_size);
  OneOutcome one_outcome;
  OneMembership membership(gang_size);
  OneRoot one_root;
  for (const auto& [id, witness] : witnesses_) {
    for (const std::string& wrong : witness.wrong) check("S8", wrong);
    for (const auto& view : witness.views) check("S6", membership.installed(id, view));
  }
  std::map<PeerId, Launches> launches;
  for (const auto& [id, witness] : witnesses_) launches.emplace(id, launches_of(witness));
  const FindCall find = [&launches](PeerId peer, const RoundKey& round) -> const Call* {
    const auto at = launches.find(peer);
    return at == launches.end() ? nullptr : at->second.of(round);
  };
  for (const auto& [id, witness] : witnesses_) {
    for (const Call& call : witness.calls) {
      if (!call.outcome) {
        if (witness.closed) check("S8", text_of(id) + ": call " + std::to_string(call.id.value) + " has never ended");
        continue;
      }
      if (call.kind != CallKind::kCollective) continue;
      check("S1", one_outcome.ended(call, membership.founding(call.outcome->round.cohort)));
      check("S6", membership.ended(call));
      check("S5", one_root.ended(call, find));
      check("S10", check_mismatch(call, find));
      check("S10", check_arguments_kept(call, 0));
      check("P1", check_bytes_sent(call, 1));
      if (call.outcome->status != Status::kOk || call.outcome->contributors == nullptr) continue;
      for (const PeerId contributor : *call.outcome->contributors) {
        const auto at = witnesses_.find(contributor);
        if (at == witnesses_.end() || !at->second.stopped.empty()) continue;
        if (find(contributor, call.outcome->round) != nullptr) continue;
        check("S2", text_of(call.outcome->round) + " counts " + text_of(contributor) + ", which never launched it");
      }
    }
  }
  return failures;
}

Audit::Sums Audit::sums() const {
  Sums sums;
  std::set<std::uint64_t> views;
  std::set<RoundKey> rounds;
  for (const auto& [id, witness] : witnesses_) {
    sums.peers += 1;
    sums.calls += witness.calls.size();
    for (const auto& view : witness.views) views.insert(view->number.value);
    for (const Call& call : witness.calls) {
      if (call.outcome && call.outcome->status == Status::kOk && call.kind == CallKind::kCollective) {
        rounds.insert(call.outcome->round);
      }
    }
  }
  sums.views = views.size();
  sums.rounds = rounds.size();
  return sums;
}

}  // namespace lockstep::sim
