#include "sim/workload/text.h"

#include "sim/plan/work.h"
#include "sim/workload/call.h"

#include "core/base/assert.h"
#include "core/trace/event.h"

namespace lockstep::sim {

std::string hex(std::uint64_t value) {
  std::string out(16, '0');
  for (std::size_t i = 0; i < 16; ++i) out[15 - i] = "0123456789abcdef"[(value >> (4 * i)) & 15U];
  return out;
}

std::string text_of(PeerId peer) { return hex(peer.high).substr(0, 8); }

std::string text_of(const std::vector<PeerId>& peers) {
  std::string out = "[";
  for (const PeerId& peer : peers) out += (out.size() > 1 ? " " : "") + text_of(peer);
  return out + "]";
}

std::string text_of(const RoundKey& round) {
  return "round c" + std::to_string(round.cohort.value) + ".g" + std::to_string(round.group.value) + ".t" +
         std::to_string(round.tag.value) + ".u" + std::to_string(round.use);
}

std::string text_of(const peer::Outcome& outcome) {
  std::string out(status_name(outcome.status));
  if (!outcome.text.empty()) out += " (" + outcome.text + ")";
  if (!outcome.state_difference.empty()) out += " (" + outcome.state_difference + ")";
  return out;
}

std::string text_of(const ring::Request& request) {
  std::string out;
  switch (request.collective) {
    case wire::Collective::kAllReduce: out = "all-reduce "; break;
    case wire::Collective::kReduceScatter: out = "reduce-scatter "; break;
    case wire::Collective::kAllGather: out = "all-gather "; break;
    case wire::Collective::kBroadcast: out = "broadcast "; break;
    case wire::Collective::kReduce: out = "reduce "; break;
    case wire::Collective::kGather: out = "gather "; break;
    case wire::Collective::kScatter: out = "scatter "; break;
    case wire::Collective::kAllToAll: out = "all-to-all "; break;
    case wire::Collective::kBarrier: return "barrier tag " + std::to_string(request.tag.value);
    case wire::Collective::kSync:
      return "sync of revision " + std::to_string(request.state->revision) + " tag " +
             std::to_string(request.tag.value);
  }
  for (const ring::Tensor& tensor : request.tensors) {
    out += std::to_string(tensor.count) + (&tensor == &request.tensors.back() ? "" : "+");
  }
  out += ' ';
  out += name_of(request.type);
  out += ' ';
  out += name_of(request.op);
  if (!request.formats.native()) out += " " + to_text(request.formats);
  if (request.algorithm) out.append(" ").append(name_of(*request.algorithm));
  if (request.weight) out += " weight " + std::to_string(*request.weight);
  const bool feeds_back =
      std::ranges::any_of(request.tensors, [](const ring::Tensor& tensor) { return tensor.residual.length > 0; });
  if (feeds_back) out += " with residual";
  return out + " tag " + std::to_string(request.tag.value);
}

std::string text_of(const Call& call) {
  if (call.kind == CallKind::kCollective) return text_of(call.request);
  if (call.kind == CallKind::kSend || call.kind == CallKind::kReceive) {
    const peer::Transfer& what = call.transfer;
    return std::string(name_of(call.kind)) + " " + std::string(name_of(what.type)) + " [" + std::to_string(what.count) +
           "] tag " + std::to_string(what.tag.value) + (call.kind == CallKind::kSend ? " to " : " from ") +
           (what.peer.is_nobody() ? "any" : text_of(what.peer));
  }
  const bool shares = call.kind == CallKind::kPublish || call.kind == CallKind::kPrefetch;
  return name_of(call.kind) + (shares ? " tag " + std::to_string(call.request.tag.value) : std::string());
}

std::string text_of(const wire::View& view) {
  std::string out = "view " + std::to_string(view.term.value) + "." + std::to_string(view.number.value) + " cohort " +
                    std::to_string(view.cohort.value) + " {";
  for (const wire::Member& member : view.members) {
    out += (&member == view.members.data() ? "" : " ") + text_of(member.id) + "/g" + std::to_string(member.group.value);
  }
  return out + "}";
}

}  // namespace lockstep::sim
