#include "sim/text.h"

#include <algorithm>

#include "core/base/assert.h"
#include "core/trace/event.h"

namespace lockstep::sim {
namespace {

// Levenshtein's, a row at a time.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

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
  return out;
}

std::string text_of(const peer::Request& request) {
  std::string out;
  switch (request.collective) {
    case peer::Collective::kAllReduce: out = "all-reduce "; break;
    case peer::Collective::kReduceScatter: out = "reduce-scatter "; break;
    case peer::Collective::kAllGather: out = "all-gather "; break;
    case peer::Collective::kBroadcast: out = "broadcast "; break;
    case peer::Collective::kBarrier: return "barrier tag " + std::to_string(request.tag.value);
  }
  for (const peer::Tensor& tensor : request.tensors) {
    out += std::to_string(tensor.count) + (&tensor == &request.tensors.back() ? "" : "+");
  }
  out += ' ';
  out += name_of(request.type);
  out += ' ';
  out += name_of(request.op);
  return out + " tag " + std::to_string(request.tag.value);
}

std::string text_of(Instant at) {
  const std::string digits = std::to_string(at.ns % 1'000'000'000);
  return std::to_string(at.ns / 1'000'000'000) + "." + std::string(9 - digits.size(), '0').append(digits).substr(0, 6) +
         "s";
}

std::string text_of(const wire::View& view) {
  std::string out = "view " + std::to_string(view.term.value) + "." + std::to_string(view.number.value) + " cohort " +
                    std::to_string(view.cohort.value) + " {";
  for (const wire::Member& member : view.members) {
    out += (&member == view.members.data() ? "" : " ") + text_of(member.id) + "/g" + std::to_string(member.group.value);
  }
  return out + "}";
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known) {
  const auto best = std::min_element(
      known.begin(), known.end(), [&](const auto& x, const auto& y) { return distance(word, x) < distance(word, y); });
  if (best == known.end() || distance(word, *best) > 3) return "";
  return "; did you mean \"" + *best + "\"?";
}

}  // namespace lockstep::sim
