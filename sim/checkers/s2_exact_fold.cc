#include "sim/checkers/s2_exact_fold.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "sim/checkers/oracle_chunks.h"
#include "sim/checkers/oracle_codec.h"
#include "sim/checkers/oracle_elements.h"
#include "sim/checkers/oracle_grid.h"
#include "sim/workload/text.h"

namespace lockstep::sim {
namespace {

using ring::Tensor;
using wire::Collective;

using oracle::Elements;
using oracle::Floats;

bool is_one_chunk(const Call& call, const Tensor& tensor) {
  return oracle::is_one_chunk(call.request.collective, tensor.count * size_of(call.request.type),
                              call.launch.segment_bytes);
}

// Elements [begin, end) of one tensor of one contributor.
Token token_of(const Call& call, std::size_t tensor, Elements elements) {
  const std::uint64_t width = size_of(call.request.type);
  return token_of_content(content_of(call.data.content, tensor), elements.begin * width, elements.end * width);
}

std::vector<std::byte> slice_of(const std::vector<std::byte>& bytes, Elements elements, std::uint64_t width) {
  const auto at = [&](std::uint64_t element) { return bytes.begin() + static_cast<std::ptrdiff_t>(element * width); };
  return {at(elements.begin), at(elements.end)};
}

std::vector<std::byte> input_of(const Call& call, std::size_t tensor, Elements elements) {
  const std::uint64_t width = size_of(call.request.type);
  if (call.data.given) return slice_of(call.data.given->inputs[tensor], elements, width);
  std::vector<std::byte> bytes((elements.end - elements.begin) * width);
  fill_content(bytes, content_of(call.data.content, tensor), call.request.type, elements.begin * width,
               oracle::is_encoded(call.request));
  if (call.data.odd && call.data.odd->tensor == tensor && call.data.odd->element >= elements.begin &&
      call.data.odd->element < elements.end) {
    std::memcpy(bytes.data() + (call.data.odd->element - elements.begin) * width, &call.data.odd->value, sizeof(float));
  }
  return bytes;
}

// The contribution to a direct round: with the residual, if there is one.
bool feeds_back(const Call& call, std::size_t tensor) { return call.request.tensors[tensor].residual.length > 0; }

Token residual_token_of(const Call& call, std::size_t tensor, Elements elements) {
  return token_of_content(content_of_residual(call.data.content, tensor), elements.begin * sizeof(float),
                          elements.end * sizeof(float));
}

Token corrected_of(const Call& call, std::size_t tensor, Elements elements) {
  const Token own = token_of(call, tensor, elements);
  return feeds_back(call, tensor) ? corrected(own, residual_token_of(call, tensor, elements)) : own;
}

Floats floats_of(const std::vector<std::byte>& bytes) {
  Floats values(bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

Floats floats_of(std::uint64_t content, Elements elements) {
  Floats values(elements.end - elements.begin);
  fill_content(std::as_writable_bytes(std::span(values)), content, DataType::kF32, elements.begin * sizeof(float),
               true);
  return values;
}

Floats residual_of(const Call& call, std::size_t tensor, Elements elements) {
  if (call.data.given) return floats_of(slice_of(call.data.given->residuals[tensor], elements, sizeof(float)));
  return floats_of(content_of_residual(call.data.content, tensor), elements);
}

Floats corrected_floats_of(const Call& call, std::size_t tensor, Elements elements) {
  Floats values = floats_of(input_of(call, tensor, elements));
  if (!feeds_back(call, tensor)) return values;
  return oracle::add_weighted(values, 1, residual_of(call, tensor, elements));
}

struct CommittedRound {
  const Call& call;
  const peer::Outcome& outcome;
  const Memory& memory;
  std::vector<const Call*> contributors;  // by rank
  std::size_t rank = 0;

  [[nodiscard]] std::size_t world() const { return contributors.size(); }
  // Of a tensor, or of the chunks of one, by their numbers.
  [[nodiscard]] std::vector<std::uint64_t> owners() const {
    if (oracle::is_grid(outcome)) return oracle::owners_in_grid(world());
    std::vector<std::uint64_t> all(world());
    std::iota(all.begin(), all.end(), std::uint64_t{0});
    return all;
  }
  // The outcome is the caller's own. The receipts of others have other chunks and blocks.
  [[nodiscard]] bool has_receipt() const { return call.outcome.has_value(); }
  [[nodiscard]] std::string place(std::size_t tensor, Elements elements) const {
    return text_of(outcome.round) + " on " + text_of(call.peer) + ": " + text_of(call.request) + ", tensor " +
           std::to_string(tensor) + ", elements " + std::to_string(elements.begin) + ".." +
           std::to_string(elements.end);
  }
};

// An encoded chunk. Around the ring it starts as the first contribution, is decoded, added to and encoded again at
// every stop, and ends as what everybody decodes. Direct, every contribution but the owner's, the last, is encoded by
// itself.
struct Encoded {
  WireFormat up = WireFormat::kNative;
  WireFormat down = WireFormat::kNative;
  bool direct = false;
  bool averages = false;
  oracle::Weights weights;

  [[nodiscard]] float weight_of(const Call& call) const {
    const float weight = call.request.weight.value_or(1);
    return averages ? weights.scaled(weight) : weight;
  }
  [[nodiscard]] float divisor() const { return averages ? weights.divisor() : 0; }  // 0: a sum
};

oracle::Weights weights_of(const CommittedRound& round) {
  Floats all;
  for (const Call* contributor : round.contributors) all.push_back(contributor->request.weight.value_or(1));
  return oracle::Weights(all);
}

Encoded encoded_of(const CommittedRound& round, std::uint64_t elements) {
  const ring::Request& request = round.call.request;
  if (round.world() == 1) return {.averages = request.op == ReduceOp::kAvg, .weights = weights_of(round)};
  return {oracle::format_of(request.formats.up, elements), oracle::format_of(request.formats.down, elements),
          oracle::is_direct(round.outcome), request.op == ReduceOp::kAvg, weights_of(round)};
}

bool all_finite(const Floats& values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

// `who(i)`: the i-th contributor on the way. Nothing: an element that counts, or a sum, is infinite or NaN, which ends
// the call.
template <typename Who>
std::optional<oracle::Bytes> fold_encoded(const Encoded& how, std::size_t n, std::size_t tensor, Elements elements,
                                          const Who& who) {
  const std::size_t count = elements.size();
  Floats sums(count);
  for (std::size_t i = 0; i < n; ++i) {
    Floats own = n > 1 ? corrected_floats_of(who(i), tensor, elements) : floats_of(input_of(who(i), tensor, elements));
    float weight = how.weight_of(who(i));
    if (weight != 0 && !all_finite(own)) return std::nullopt;
    const bool last = i + 1 == n;
    if (how.direct && !last) {
      const Floats goes = oracle::weighed(weight, own);
      if (!all_finite(goes)) return std::nullopt;
      own = oracle::decode(how.up, oracle::encode(how.up, goes), count);
      weight = 1;
    }
    sums = i == 0 ? oracle::weighed(weight, own) : oracle::add_weighted(sums, weight, own);
    if (how.direct && !last) continue;
    if (last && how.divisor() != 0) {
      for (float& sum : sums) sum /= how.divisor();
    }
    if (!all_finite(sums)) return std::nullopt;
    const WireFormat format = last ? how.down : how.up;
    sums = oracle::decode(format, oracle::encode(format, sums), count);
  }
  oracle::Bytes bytes(count * sizeof(float));
  std::memcpy(bytes.data(), sums.data(), bytes.size());
  return bytes;
}

template <typename Who>
Token fold_encoded_tokens(const Encoded& how, std::size_t n, std::size_t tensor, Elements part, const Who& who) {
  Token token;
  for (std::size_t i = 0; i < n; ++i) {
    Token own = n > 1 ? corrected_of(who(i), tensor, part) : token_of(who(i), tensor, part);
    float weight = how.weight_of(who(i));
    const bool last = i + 1 == n;
    if (how.direct && !last) {
      own = decoded(encoded(weighed(own, weight), how.up), how.up);
      weight = 1;
    }
    token =
        i == 0 ? (how.direct ? own : weighed(own, weight)) : add_weighted(token, own, weight, last ? how.divisor() : 0);
    if (how.direct && !last) continue;
    const WireFormat format = last ? how.down : how.up;
    token = decoded(encoded(token, format), format);
  }
  return token;
}

// A chunk that travels as it is: a sum of terms, each of which is a sum of contributions.
using Terms = std::vector<std::vector<const Call*>>;

Terms terms_of(const CommittedRound& round, std::uint64_t owner) {
  Terms terms;
  if (oracle::is_grid(round.outcome)) {
    for (const oracle::Ranks& ranks : oracle::terms_in_grid(round.world(), owner)) {
      std::vector<const Call*>& term = terms.emplace_back();
      for (const std::uint64_t rank : ranks) term.push_back(round.contributors[rank]);
    }
    return terms;
  }
  const std::size_t n = round.world();
  for (std::size_t i = 0; i < n; ++i) terms.push_back({round.contributors[(owner + 1 + i) % n]});
  return terms;
}

// `divisor`: 0: none.
std::vector<std::byte> fold_plain(const ring::Request& request, std::uint32_t divisor, const Terms& terms,
                                  std::size_t tensor, Elements elements) {
  std::vector<std::byte> folded;
  for (const std::vector<const Call*>& term : terms) {
    std::vector<std::byte> sum = input_of(*term.front(), tensor, elements);
    for (std::size_t i = 1; i < term.size(); ++i)
      sum = oracle::fold(request.type, request.op, sum, input_of(*term[i], tensor, elements));
    folded = &term == &terms.front() ? std::move(sum) : oracle::fold(request.type, request.op, folded, sum);
  }
  if (divisor != 0) oracle::divide(request.type, folded, divisor);
  return folded;
}

Token fold_plain_tokens(const ring::Request& request, std::uint32_t divisor, const Terms& terms, std::size_t tensor,
                        Elements part) {
  Token folded;
  for (const std::vector<const Call*>& term : terms) {
    Token sum = token_of(*term.front(), tensor, part);
    for (std::size_t i = 1; i < term.size(); ++i)
      sum = fold(sum, token_of(*term[i], tensor, part), request.type, request.op, 0);
    const bool last = &term == &terms.back();
    folded = &term == &terms.front() ? sum : fold(folded, sum, request.type, request.op, last ? divisor : 0);
  }
  return folded;
}

// A part of the elements that lie at `where` whose token is not the one that is wanted; the first.
struct WrongPiece {
  Elements part;
  bool whole = false;    // the token is valid
  bool has_all = false;  // the token is composed of the expected inputs
};
template <typename Want>
std::optional<WrongPiece> wrong_piece(const Memory& memory, BufferRef where, Elements elements, std::uint64_t width,
                                      const Want& want) {
  std::uint64_t covered = where.offset;
  for (const TokenMap::Stretch& stretch : memory.tokens(where.id).stretches()) {
    const std::uint64_t begin = std::max(stretch.at, where.offset);
    const std::uint64_t end = std::min(stretch.at + stretch.length, where.offset + where.length);
    if (begin >= end) continue;
    const Elements part = {elements.begin + (begin - where.offset) / width,
                           elements.begin + (end - where.offset) / width};
    Token got;
    const bool whole = memory.tokens(where.id).read(begin, end - begin, got);
    const Token wanted = want(part);
    if (!whole || got != wanted) return WrongPiece{part, whole, got.sum == wanted.sum};
    covered = end;
  }
  if (covered != where.offset + where.length) return WrongPiece{elements};
  return std::nullopt;
}

// Elements of a tensor that belong to one chunk lie at `where` and must be the fold of everybody's.
Complaint check_folded(const CommittedRound& round, std::size_t tensor, std::uint64_t owner, Elements elements,
                       BufferRef where) {
  if (elements.begin == elements.end) return {};
  const ring::Request& request = round.call.request;
  const std::size_t n = round.world();
  const auto who = [&](std::size_t i) -> const Call& { return *round.contributors[(owner + 1 + i) % n]; };
  const std::uint32_t divisor = request.op == ReduceOp::kAvg && n > 1 ? static_cast<std::uint32_t>(n) : 0;
  const std::uint64_t width = size_of(request.type);
  const bool multiplies = request.weight.has_value() && request.op == ReduceOp::kSum;
  const bool encodes = oracle::is_encoded(request) && (n > 1 || multiplies);
  const Encoded how = encoded_of(round, elements.end - elements.begin);
  if (round.memory.mode() == Mode::kBytes) {
    const std::optional<oracle::Bytes> expected =
        encodes ? fold_encoded(how, n, tensor, elements, who)
                : fold_plain(request, divisor, terms_of(round, owner), tensor, elements);
    if (!expected) {
      return round.place(tensor, elements) +
             " is committed, and an element of a contribution, or of their sum, is infinite or NaN";
    }
    const auto got = round.memory.look(where);
    LOCKSTEP_ASSERT(got.size() == expected->size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (got[i] != (*expected)[i]) {
        return round.place(tensor, elements) + " of chunk " + std::to_string(owner) + ": byte " + std::to_string(i) +
               " is not that of the fold of " + std::to_string(n) + " contributors";
      }
    }
    return {};
  }
  const Terms terms = encodes ? Terms{} : terms_of(round, owner);
  const auto want = [&](Elements part) {
    return encodes ? fold_encoded_tokens(how, n, tensor, part, who)
                   : fold_plain_tokens(request, divisor, terms, tensor, part);
  };
  const std::optional<WrongPiece> wrong = wrong_piece(round.memory, where, elements, width, want);
  if (!wrong) return {};
  return round.place(tensor, wrong->part) + " of chunk " + std::to_string(owner) +
         (!wrong->whole    ? " have no meaning (never arrived, or torn)"
          : wrong->has_all ? " hold everybody's input once, folded in another order"
                           : " are not the sum of the inputs of the " + std::to_string(n) + " contributors");
}

// After the commit a residual holds what the encoding lost of a contribution: the checker knows the contribution as it
// was sent, and how it is decoded.
Complaint check_left(const CommittedRound& round, std::size_t tensor, std::uint64_t owner, Elements elements) {
  const Call& call = round.call;
  if (elements.begin == elements.end || !feeds_back(call, tensor)) return {};
  const Encoded how = encoded_of(round, elements.end - elements.begin);
  const float weight = how.weight_of(call);
  const bool untouched = weight == 0 || round.world() == 1;
  const WireFormat format = owner == round.rank ? WireFormat::kNative : how.up;
  const BufferRef where = call.request.tensors[tensor].residual.slice(elements.begin * sizeof(float),
                                                                      (elements.end - elements.begin) * sizeof(float));
  const std::string place = round.place(tensor, elements) + ": the residual of chunk " + std::to_string(owner);
  if (round.memory.mode() == Mode::kBytes) {
    const Floats values = untouched ? residual_of(call, tensor, elements)
                                    : oracle::lost_of(format, weight, corrected_floats_of(call, tensor, elements));
    const auto got = round.memory.look(where);
    if (std::memcmp(got.data(), values.data(), got.size()) == 0) return {};
    return place + " is not what was lost of its contribution";
  }
  const auto want = [&](Elements part) {
    return untouched ? residual_token_of(call, tensor, part)
                     : left_of(corrected_of(call, tensor, part), weight, format);
  };
  if (!wrong_piece(round.memory, where, elements, sizeof(float), want)) return {};
  return place + " is not what was lost of its contribution";
}

// A copy of elements of one contributor's tensor, from element `first` on.
Complaint check_copied(const CommittedRound& round, const Call& source, std::size_t tensor, BufferRef where,
                       std::uint64_t first = 0) {
  const std::uint64_t width = size_of(round.call.request.type);
  const Elements elements = {first, first + where.length / width};
  bool same = false;
  if (round.memory.mode() == Mode::kBytes) {
    const auto got = round.memory.look(where);
    same = elements.end <= source.request.tensors[tensor].count &&
           std::ranges::equal(got, input_of(source, tensor, elements));
  } else {
    Token got;
    same = round.memory.tokens(where.id).read(where.offset, where.length, got) &&
           got == token_of(source, tensor, elements);
  }
  if (same) return {};
  return round.place(tensor, elements) + " are not those of " + text_of(source.peer);
}

// The receipt has the sum of the weights, and there is one.
Complaint check_weight(const CommittedRound& round) {
  if (!round.call.request.weight) return {};
  const oracle::Weights weights = weights_of(round);
  const double told = round.outcome.weight;
  const bool weighs = std::ranges::all_of(round.contributors, [](const Call* by) {
    const float weight = by->request.weight.value_or(1);
    return std::isfinite(weight) && weight >= 0;
  });
  if (!weighs) return round.place(0, {}) + ": it is committed, and a weight is negative or no number";
  if (round.call.request.op == ReduceOp::kSum)
    return told == 0 ? Complaint{} : round.place(0, {}) + ": a sum, whose receipt has a sum of weights";
  if (weights.valid() && told == weights.total()) return {};
  return round.place(0, {}) + ": the weights add up to " + std::to_string(weights.total()) + ", the receipt says " +
         std::to_string(told) + (weights.valid() ? "" : ", and it is committed");
}

Complaint check_all_reduce(const CommittedRound& round) {
  const auto& tensors = round.call.request.tensors;
  if (Complaint bad = check_weight(round)) return bad;
  const std::uint64_t width = size_of(round.call.request.type);
  const std::vector<std::uint64_t> owners = round.owners();
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    if (is_one_chunk(round.call, tensors[t])) {
      const Elements all = {0, tensors[t].count};
      const std::uint64_t owner = owners[oracle::owner_of_one_chunk(t, owners.size())];
      if (Complaint bad = check_folded(round, t, owner, all, tensors[t].recv)) return bad;
      if (Complaint bad = check_left(round, t, owner, all)) return bad;
      continue;
    }
    for (std::uint64_t number = 0; number < owners.size(); ++number) {
      const Elements chunk = oracle::chunk_of(number, owners.size(), tensors[t].count);
      const BufferRef where = tensors[t].recv.slice(chunk.begin * width, (chunk.end - chunk.begin) * width);
      if (Complaint bad = check_folded(round, t, owners[number], chunk, where)) return bad;
      if (Complaint bad = check_left(round, t, owners[number], chunk)) return bad;
    }
  }
  return {};
}

Complaint check_reduce_scatter(const CommittedRound& round) {
  const Tensor& tensor = round.call.request.tensors.front();
  const std::uint64_t width = size_of(round.call.request.type);
  const Elements mine = oracle::chunk_of(round.rank, round.world(), tensor.count);
  const peer::Outcome& outcome = round.outcome;
  const bool told = outcome.chunk.begin == mine.begin && outcome.chunk.size() == mine.end - mine.begin;
  if (round.has_receipt() && !told) {
    return round.place(0, mine) + " are this rank's chunk, but its receipt says " +
           std::to_string(outcome.chunk.begin) + " +" + std::to_string(outcome.chunk.size());
  }
  return check_folded(round, 0, round.rank, mine, tensor.recv.slice(0, (mine.end - mine.begin) * width));
}

// The elements of a sender's tensor that are for a receiver.
Elements block_for(const Call& sender, PeerId receiver) {
  if (sender.request.collective == Collective::kAllGather) return {0, sender.request.tensors.front().count};
  std::uint64_t first = 0;
  for (const ring::Block& block : sender.request.blocks) {
    if (block.to == receiver) return {first, first + block.count};
    first += block.count;
  }
  return {};
}

// The blocks that are for this rank lie in recv, in the order of ranks, and the receipt has their sizes.
Complaint check_blocks(const CommittedRound& round) {
  const Tensor& tensor = round.call.request.tensors.front();
  const std::uint64_t width = size_of(round.call.request.type);
  const auto& blocks = round.outcome.blocks;
  if (round.has_receipt() && blocks.size() != round.world()) {
    return round.place(0, {}) + ": the receipt names " + std::to_string(blocks.size()) + " blocks for " +
           std::to_string(round.world()) + " contributors";
  }
  std::uint64_t at = 0;
  for (std::size_t rank = 0; rank < round.world(); ++rank) {
    const Call& source = *round.contributors[rank];
    const Elements sent = block_for(source, round.call.peer);
    const std::uint64_t count = sent.size();
    if (round.has_receipt() && blocks[rank] != count) {
      return round.place(0, {}) + ": the block of rank " + std::to_string(rank) + " has " + std::to_string(count) +
             " elements, the receipt says " + std::to_string(blocks[rank]);
    }
    if (count == 0) continue;
    const BufferRef where = tensor.recv.slice(at * width, count * width);
    if (Complaint bad = check_copied(round, source, 0, where, sent.begin)) return bad;
    at += count;
  }
  return {};
}

auto root_of(const CommittedRound& round) {
  return std::find_if(round.contributors.begin(), round.contributors.end(),
                      [&](const Call* call) { return call->peer == round.call.request.root; });
}

// The root has the fold of all contributions, in the order of the ring, its own last; the others have nothing. In a
// grid the order is that of the root's tree, or, of many bytes and in several rows, in each chunk that of its owner's.
Complaint check_reduce(const CommittedRound& round) {
  const auto& tensors = round.call.request.tensors;
  const auto root = root_of(round);
  if (root == round.contributors.end()) return round.place(0, {}) + ": the root is not among the contributors";
  if ((*root)->peer != round.call.peer) return {};
  const auto rank = static_cast<std::uint64_t>(root - round.contributors.begin());
  const bool chunks =
      oracle::is_grid(round.outcome) &&
      oracle::way_of_root_in_grid(oracle::bytes_of(round.call.request), round.world()) != oracle::RootWay::kStraight;
  const std::uint64_t width = size_of(round.call.request.type);
  const std::vector<std::uint64_t> owners = round.owners();
  const bool one_row = oracle::rows_of(round.world()).size() == 1;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    for (std::uint64_t number = 0; chunks && number < owners.size(); ++number) {
      const Elements chunk = oracle::chunk_of(number, owners.size(), tensors[t].count);
      const BufferRef where = tensors[t].recv.slice(chunk.begin * width, chunk.size() * width);
      if (Complaint bad = check_folded(round, t, one_row ? rank : owners[number], chunk, where)) return bad;
    }
    if (chunks) continue;
    if (Complaint bad = check_folded(round, t, rank, {0, tensors[t].count}, tensors[t].recv)) return bad;
  }
  return {};
}

Complaint check_broadcast(const CommittedRound& round) {
  const auto& tensors = round.call.request.tensors;
  const auto root = root_of(round);
  if (root == round.contributors.end()) return round.place(0, {}) + ": the root is not among the contributors";
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const std::uint64_t bytes = tensors[t].count * size_of(round.call.request.type);
    if (Complaint bad = check_copied(round, **root, t, tensors[t].recv.slice(0, bytes))) return bad;
  }
  return {};
}

// `outcome`: of the caller, or of another member of the round.
Complaint check_result(const Call& call, const peer::Outcome& outcome, const Memory& memory, const FindCall& find) {
  if (call.kind != CallKind::kCollective || outcome.status != Status::kOk || outcome.contributors == nullptr) return {};
  CommittedRound round{call, outcome, memory, {}, 0};
  bool among = false;
  for (const PeerId& id : *outcome.contributors) {
    const Call* theirs = find(id, outcome.round);
    if (theirs == nullptr) {
      return text_of(outcome.round) + ": " + text_of(id) + " is a contributor, but it never launched this round";
    }
    const bool other_type =
        theirs->request.type != call.request.type && call.request.collective != Collective::kBarrier;
    if (theirs->request.tensors.size() != call.request.tensors.size() || other_type) {
      return text_of(outcome.round) + ": committed, although " + text_of(id) + " called it with other arguments (" +
             text_of(theirs->request) + ") than " + text_of(call.peer) + " (" + text_of(call.request) + ")";
    }
    if (id == call.peer) {
      among = true;
      round.rank = round.contributors.size();
    }
    for (const Call* earlier : round.contributors) {
      if (earlier->peer == id) return text_of(outcome.round) + ": " + text_of(id) + " is named twice as a contributor";
    }
    round.contributors.push_back(theirs);
  }
  const auto has_inputs = [](const Call* by) { return !by->of_guest || by->data.given; };
  if (!std::ranges::all_of(round.contributors, has_inputs)) return {};
  if (!among)
    return text_of(outcome.round) + " is committed for " + text_of(call.peer) + ", which is not a contributor";
  switch (call.request.collective) {
    case Collective::kAllReduce: return check_all_reduce(round);
    case Collective::kReduceScatter: return check_reduce_scatter(round);
    case Collective::kAllGather:
    case Collective::kGather:
    case Collective::kScatter:
    case Collective::kAllToAll: return check_blocks(round);
    case Collective::kBroadcast: return check_broadcast(round);
    case Collective::kReduce: return check_reduce(round);
    case Collective::kBarrier:
    case Collective::kSync: return {};
  }
  LOCKSTEP_UNREACHABLE();
}

}  // namespace

Complaint check_exact_fold(const Call& call, const Memory& memory, const FindCall& find) {
  return check_result(call, *call.outcome, memory, find);
}

Complaint check_receiver(const Call& theirs, const peer::Outcome& told, const Memory& memory, const FindCall& find) {
  LOCKSTEP_ASSERT(!theirs.outcome);
  Complaint missing = check_result(theirs, told, memory, find);
  if (missing) *missing += "; another member has been told that the round has committed";
  return missing;
}

}  // namespace lockstep::sim
