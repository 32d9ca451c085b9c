#include "sim/audit.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/base/assert.h"
#include "sim/checkers/p1_bytes.h"
#include "sim/checkers/s10_arguments.h"
#include "sim/checkers/s10_mismatch.h"
#include "sim/checkers/s1_one_outcome.h"
#include "sim/checkers/s6_membership.h"
#include "sim/checkers/s8_once.h"
#include "sim/text.h"
#include "sim/words.h"

namespace lockstep::sim {
namespace {

using Json = nlohmann::json;

struct Malformed {
  std::string what;
};

PeerId peer_of(const Json& json) {
  const std::string text = json.get<std::string>();
  const bool hex = text.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (text.size() != 32 || !hex) throw Malformed{"'" + text + "' is no peer: 32 hexadecimal digits"};
  return {std::strtoull(text.substr(0, 16).c_str(), nullptr, 16), std::strtoull(text.substr(16).c_str(), nullptr, 16)};
}

template <typename T, typename... Name>
T one_of(const Json& json, std::uint8_t count, Name&&... name) {
  const std::string text = json.get<std::string>();
  if (const std::optional<T> value = named<T>(text, count, std::forward<Name>(name)...)) return *value;
  throw Malformed{"unknown word '" + text + "'"};
}

peer::Request request_of(const Json& json) {
  peer::Request request;
  request.collective = one_of<peer::Collective>(json.at("collective"), wire::kCollectiveCount);
  request.type = one_of<DataType>(json.at("type"), kDataTypeCount);
  request.op = one_of<ReduceOp>(json.at("op"), kReduceOpCount);
  request.tag = Tag{json.at("tag")};
  request.retry = json.at("retry");
  request.minimum_world = json.at("minimum_world");
  request.root = peer_of(json.at("root"));
  for (const Json& count : json.at("counts")) request.tensors.push_back({{}, {}, count.get<std::uint64_t>()});
  return request;
}

peer::Outcome outcome_of(const Json& json) {
  peer::Outcome outcome;
  outcome.status = one_of<Status>(json.at("status"), kStatusCount, [](Status s) { return status_name(s); });
  outcome.text = json.value("text", std::string());
  outcome.view = ViewNumber{json.at("view")};
  outcome.world = json.at("world");
  if (json.contains("round")) {
    const Json& round = json.at("round");
    outcome.round = {CohortId{round.at("cohort")}, GroupId{round.at("group")}, Tag{round.at("tag")}, round.at("use")};
    outcome.attempt = Generation{json.at("attempt")};
    outcome.hash = json.at("hash");
    outcome.retries = json.at("retries");
    outcome.bytes_sent = json.at("bytes_sent");
    outcome.bytes_received = json.at("bytes_received");
  }
  if (json.contains("contributors")) {
    std::vector<PeerId> contributors;
    for (const Json& peer : json.at("contributors")) contributors.push_back(peer_of(peer));
    outcome.contributors = std::make_shared<const std::vector<PeerId>>(std::move(contributors));
  }
  if (json.contains("blocks")) outcome.blocks = json.at("blocks").get<std::vector<std::uint64_t>>();
  return outcome;
}

std::shared_ptr<const wire::View> view_of(const Json& json) {
  wire::View view;
  view.term = Term{json.at("term")};
  view.number = ViewNumber{json.at("view")};
  view.cohort = CohortId{json.at("cohort")};
  for (const Json& item : json.at("members")) {
    wire::Member member;
    member.id = peer_of(item.at("id"));
    member.group = GroupId{item.at("group")};
    member.gang = GangId{item.at("gang")};
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
  throw Malformed{"unknown kind of call '" + name + "'"};
}

}  // namespace

class Audit::Reader {
 public:
  Reader(Witness& witness, const Json& json) : witness_(witness), json_(json) {}

  void read() {
    const std::string what = json_.at("what");
    if (what == "opened") {
      witness_.gang_size = json_.at("gang") == 0 ? 1 : json_.at("gang_size").get<std::uint32_t>();
    } else if (what == "called") {
      called();
    } else if (what == "ended") {
      ended();
    } else if (what == "installed") {
      witness_.views.push_back(view_of(json_));
    } else if (what == "closed") {
      witness_.closed = true;
    } else {
      throw Malformed{"nothing is called '" + what + "'"};
    }
  }

 private:
  void called() {
    Call call;
    call.peer = witness_.id;
    call.id = CallId{json_.at("call")};
    call.kind = kind_of(json_.at("kind"));
    if (call.kind == CallKind::kCollective) call.request = request_of(json_);
    if (call.kind == CallKind::kAdmit) call.at_least = json_.at("at_least");
    if (!witness_.by_id.emplace(call.id.value, witness_.calls.size()).second) {
      throw Malformed{"a second call " + std::to_string(call.id.value)};
    }
    witness_.calls.push_back(std::move(call));
  }

  void ended() {
    const CallId id{json_.at("call")};
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
    Reader(witness, json).read();
    return {};
  } catch (const Json::exception& error) {
    return Error{Status::kInvalidArgument, std::string("no line of a journal: ") + error.what()};
  } catch (const Malformed& error) {
    return Error{Status::kInvalidArgument, error.what};
  }
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
  Membership membership(gang_size);
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
      check("S10", check_mismatch(call, find));
      check("S10", check_arguments_kept(call, 0));
      check("P1", check_bytes_sent(call, 1));
      if (call.outcome->status != Status::kOk || call.outcome->contributors == nullptr) continue;
      for (const PeerId contributor : *call.outcome->contributors) {
        if (!witnesses_.contains(contributor) || find(contributor, call.outcome->round) != nullptr) continue;
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
