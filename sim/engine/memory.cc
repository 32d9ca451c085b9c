#include "sim/engine/memory.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "core/base/assert.h"
#include "core/base/overloaded.h"
#include "core/kernels/checksum.h"
#include "core/kernels/run_job.h"

namespace lockstep::sim {
namespace {

using Stretch = TokenMap::Stretch;

// Checkers have their own hash: it must not depend on the checksum that core trusts.
std::uint64_t fingerprint_of(std::span<const std::byte> bytes) {
  std::uint64_t hash = mix64(bytes.size());
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min(bytes.size() - at, sizeof word));
    hash = mix64(hash ^ word) + 0x9e3779b97f4a7c15U;
  }
  return hash;
}

// The part [from, to) of a stretch. A token that is cut means nothing any more.
Stretch part_of(const Stretch& stretch, std::uint64_t from, std::uint64_t to) {
  Stretch part = stretch;
  part.at = from;
  part.length = to - from;
  if (stretch.kind == Stretch::Kind::kContent) part.begin += from - stretch.at;
  if (stretch.kind == Stretch::Kind::kToken && part.length != stretch.length) part.kind = Stretch::Kind::kSpoilt;
  return part;
}

std::string_view words_for(Touch touch) {
  switch (touch) {
    case Touch::kSend: return "sent from";
    case Touch::kLand: return "received into";
    case Touch::kPlace: return "placed into";
    case Touch::kJob: return "used by a kernel";
  }
  LOCKSTEP_UNREACHABLE();
}

}  // namespace

// ---- TokenMap ----

void TokenMap::reset(std::uint64_t length) {
  stretches_.clear();
  if (length > 0) stretches_.push_back({0, length, Stretch::Kind::kSpoilt, 0, 0, {}});
}

// Neighbouring spoilt stretches are joined, so that bytes that arrive one by one do not pile up.
Stretch TokenMap::with_spoilt_neighbours(const Stretch& stretch) const {
  std::uint64_t begin = stretch.at;
  std::uint64_t end = stretch.at + stretch.length;
  const auto ends_before = [](const Stretch& p, std::uint64_t at) { return p.at + p.length < at; };
  for (auto it = std::lower_bound(stretches_.begin(), stretches_.end(), begin, ends_before);
       it != stretches_.end() && it->at <= stretch.at + stretch.length; ++it) {
    if (it->kind != Stretch::Kind::kSpoilt) continue;
    begin = std::min(begin, it->at);
    end = std::max(end, it->at + it->length);
  }
  Stretch wide = stretch;
  wide.at = begin;
  wide.length = end - begin;
  return wide;
}

void TokenMap::replace(Stretch stretch) {
  if (stretch.length == 0) return;
  if (stretch.kind == Stretch::Kind::kSpoilt) stretch = with_spoilt_neighbours(stretch);
  const std::uint64_t end = stretch.at + stretch.length;
  const auto ends_after = [](std::uint64_t at, const Stretch& p) { return at < p.at + p.length; };
  const auto first = std::upper_bound(stretches_.begin(), stretches_.end(), stretch.at, ends_after);
  LOCKSTEP_ASSERT(first != stretches_.end());
  if (first->at == stretch.at && first->length == stretch.length) {
    *first = stretch;
    return;
  }
  scratch_.clear();
  if (first->at < stretch.at) scratch_.push_back(part_of(*first, first->at, stretch.at));
  scratch_.push_back(stretch);
  auto last = first;
  while (last != stretches_.end() && last->at < end) {
    if (last->at + last->length > end) scratch_.push_back(part_of(*last, end, last->at + last->length));
    ++last;
  }
  const auto at = stretches_.erase(first, last);
  stretches_.insert(at, scratch_.begin(), scratch_.end());
}

void TokenMap::write_content(std::uint64_t at, std::uint64_t length, std::uint64_t content, std::uint64_t begin) {
  replace({at, length, Stretch::Kind::kContent, content, begin, {}});
}

void TokenMap::write_token(std::uint64_t at, std::uint64_t length, const Token& token) {
  replace({at, length, Stretch::Kind::kToken, 0, 0, token});
}

void TokenMap::spoil(std::uint64_t at, std::uint64_t length) {
  replace({at, length, Stretch::Kind::kSpoilt, 0, 0, {}});
}

void TokenMap::copy_from(const TokenMap& other, std::uint64_t from, std::uint64_t at, std::uint64_t length) {
  std::vector<Stretch> copied;
  for (const Stretch& stretch : other.stretches_) {
    const std::uint64_t begin = std::max(stretch.at, from);
    const std::uint64_t end = std::min(stretch.at + stretch.length, from + length);
    if (begin >= end) continue;
    Stretch part = part_of(stretch, begin, end);
    part.at = at + (begin - from);
    copied.push_back(part);
  }
  for (const Stretch& stretch : copied) replace(stretch);
}

bool TokenMap::read(std::uint64_t at, std::uint64_t length, Token& out) const {
  out = {};
  if (length == 0) return true;
  const std::uint64_t end = at + length;
  const auto ends_after = [](std::uint64_t x, const Stretch& p) { return x < p.at + p.length; };
  bool whole = true;
  for (auto it = std::upper_bound(stretches_.begin(), stretches_.end(), at, ends_after);
       it != stretches_.end() && it->at < end; ++it) {
    const Stretch part = part_of(*it, std::max(it->at, at), std::min(it->at + it->length, end));
    switch (part.kind) {
      case Stretch::Kind::kSpoilt:
        whole = false;
        out += {mix64(part.at), mix64(part.length)};
        break;
      case Stretch::Kind::kContent: out += token_of_content(part.content, part.begin, part.begin + part.length); break;
      case Stretch::Kind::kToken: out += part.token; break;
    }
  }
  return whole;
}

// ---- Memory ----

Memory::Memory(Mode mode) : mode_(mode) {
  if (mode == Mode::kBytes) {
    sink_.resize(kStandingBufferBytes);
    zeros_.resize(kStandingBufferBytes);
  }
}

std::unique_ptr<Memory::Buffer> Memory::fresh(std::uint64_t length) {
  std::unique_ptr<Buffer> buffer;
  if (spare_.empty()) {
    buffer = std::make_unique<Buffer>();
  } else {
    buffer = std::move(spare_.back());
    spare_.pop_back();
  }
  buffer->length = length;
  buffer->lent = false;
  return buffer;
}

BufferId Memory::make(std::uint64_t length) {
  std::unique_ptr<Buffer> buffer = fresh(length);
  if (mode_ == Mode::kBytes) {
    buffer->reset(length);
  } else {
    buffer->map.reset(length);
  }
  return add(std::move(buffer));
}

BufferId Memory::borrow(std::span<std::byte> bytes) {
  LOCKSTEP_ASSERT(mode_ == Mode::kBytes);
  std::unique_ptr<Buffer> buffer = fresh(bytes.size());
  buffer->bytes = bytes;
  return add(std::move(buffer));
}

BufferId Memory::add(std::unique_ptr<Buffer> buffer) {
  buffers_.push_back(std::move(buffer));
  live_ += 1;
  return BufferId{kFirstFreeBuffer.value + static_cast<std::uint32_t>(buffers_.size() - 1)};
}

void Memory::release(BufferId id) {
  LOCKSTEP_ASSERT(find(id) != nullptr);
  auto& slot = buffers_[id.value - kFirstFreeBuffer.value];
  spare_.push_back(std::move(slot));
  slot.reset();
  live_ -= 1;
}

Memory::Buffer* Memory::find(BufferId id) const {
  if (id < kFirstFreeBuffer || id.value - kFirstFreeBuffer.value >= buffers_.size()) return nullptr;
  return buffers_[id.value - kFirstFreeBuffer.value].get();
}

Memory::Buffer* Memory::standing(Standing& which, std::uint64_t length) {
  if (which.buffer != nullptr) return which.buffer.get();
  which.buffer = std::make_unique<Buffer>();
  which.buffer->length = length;
  which.buffer->lent = true;
  if (mode_ == Mode::kBytes) {
    // As it comes: only the slots that are used are ever touched.
    which.bytes = std::make_unique_for_overwrite<std::byte[]>(length);
    which.buffer->bytes = {which.bytes.get(), length};
  } else {
    which.buffer->map.reset(length);
  }
  return which.buffer.get();
}

Memory::Buffer* Memory::reach(BufferRef where, Touch touch) {
  Buffer* buffer = where.id == kEarlyBuffer       ? standing(early_, kEarlySlots * kEarlySlotBytes)
                   : where.id == kEarlySendBuffer ? standing(early_sends_, kEarlySendSlots * kEarlySlotBytes)
                                                  : find(where.id);
  const bool inside =
      buffer != nullptr && where.offset <= buffer->length && where.length <= buffer->length - where.offset;
  if (inside && buffer->lent) return buffer;
  if (trespass_.empty()) {
    trespass_ = "buffer " + std::to_string(where.id.value) + " [" + std::to_string(where.offset) + ", +" +
                std::to_string(where.length) + ") is " + std::string(words_for(touch)) + ", ";
    trespass_ += buffer == nullptr ? "which no call has lent"
                 : inside          ? "after its call was completed"
                                   : "beyond its end at " + std::to_string(buffer->length);
  }
  return inside ? buffer : nullptr;
}

namespace {

// Floats lie within some powers of two of each other, so that another order of folding gives other bits; one in 64 is
// any bit pattern (NaN, infinity, denormal). Integers are any bit pattern.
std::uint64_t element_of(DataType type, std::uint64_t word, bool finite) {
  if ((word >> 58U) == 0 && !finite) return word;
  const std::uint64_t scale = (word >> 50U) & 15U;
  switch (type) {
    case DataType::kF16: return (word & 0x83ffU) | ((10U + scale / 2) << 10U);
    case DataType::kBF16: return (word & 0x807fU) | ((120U + scale) << 7U);
    case DataType::kF32: return (word & 0x807fffffU) | ((116U + scale) << 23U);
    case DataType::kF64: return (word & 0x800fffffffffffffU) | ((1016U + scale) << 52U);
    case DataType::kU8:
    case DataType::kI8:
    case DataType::kU16:
    case DataType::kI16:
    case DataType::kU32:
    case DataType::kI32:
    case DataType::kU64:
    case DataType::kI64: return word;
    // mostly 0 and 1, and sometimes another byte that means true
    case DataType::kBool: return word & ((word >> 50U) % 8 == 0 ? 0x0303'0303'0303'0303U : 0x0101'0101'0101'0101U);
  }
  LOCKSTEP_UNREACHABLE();
}

// States of programs are bytes, and many: one draw makes eight of them.
void fill_bytes(std::span<std::byte> where, std::uint64_t content, std::uint64_t from) {
  static_assert(std::endian::native == std::endian::little);
  const std::uint64_t mixed = mix64(content);
  for (std::size_t i = 0; i < where.size();) {
    const std::uint64_t skipped = (from + i) % 8;
    const std::size_t count = std::min<std::size_t>(8 - skipped, where.size() - i);
    const std::uint64_t word = draw_from(mixed, 6, (from + i) / 8, 0, 0) >> (8 * skipped);
    std::memcpy(where.data() + i, &word, count);
    i += count;
  }
}

}  // namespace

void Memory::fill(BufferRef where, std::uint64_t content, DataType type, bool finite) {
  Buffer* buffer = find(where.id);
  LOCKSTEP_ASSERT(buffer != nullptr && where.offset + where.length <= buffer->length);
  if (mode_ == Mode::kToken) {
    buffer->map.write_content(where.offset, where.length, content, 0);
    return;
  }
  fill_content(buffer->bytes.subspan(where.offset, where.length), content, type, 0, finite);
}

void fill_content(std::span<std::byte> where, std::uint64_t content, DataType type, std::uint64_t from, bool finite) {
  const std::size_t width = size_of(type);
  LOCKSTEP_ASSERT(from % width == 0);
  if (type == DataType::kU8 || type == DataType::kI8) return fill_bytes(where, content, from);
  const std::uint64_t mixed = mix64(content);
  for (std::size_t i = 0; i + width <= where.size(); i += width) {
    const std::uint64_t element = element_of(type, draw_from(mixed, 5, from + i, 0, 0), finite);
    for (std::size_t k = 0; k < width; ++k) where[i + k] = static_cast<std::byte>(element >> (8 * k));
  }
}

void Memory::write(BufferRef where, float value) {
  Buffer* buffer = find(where.id);
  LOCKSTEP_ASSERT(buffer != nullptr && mode_ == Mode::kBytes && where.length == sizeof value);
  std::memcpy(buffer->bytes.data() + where.offset, &value, sizeof value);
}

void Memory::lend(BufferId id) {
  Buffer* buffer = find(id);
  LOCKSTEP_ASSERT(buffer != nullptr);
  buffer->lent = true;
}

void Memory::take_back(BufferId id) {
  Buffer* buffer = find(id);
  LOCKSTEP_ASSERT(buffer != nullptr);
  buffer->lent = false;
}

std::uint64_t Memory::fingerprint(BufferRef where) const {
  if (mode_ == Mode::kBytes && where.length == 0) return fingerprint_of({});  // nothing, wherever it lies
  const Buffer* buffer = find(where.id);
  LOCKSTEP_ASSERT(buffer != nullptr && where.offset + where.length <= buffer->length);
  if (mode_ == Mode::kBytes) return fingerprint_of(buffer->bytes.subspan(where.offset, where.length));
  Token token;
  const bool whole = buffer->map.read(where.offset, where.length, token);
  return checksum_of(token, where.length) + (whole ? 0U : 1U);
}

std::uint64_t Memory::fingerprint(BufferId id) const {
  const Buffer* buffer = find(id);
  LOCKSTEP_ASSERT(buffer != nullptr);
  return fingerprint(BufferRef{id, 0, buffer->length});
}

std::span<const std::byte> Memory::look(BufferRef where) const {
  const Buffer* buffer = find(where.id);
  LOCKSTEP_ASSERT(buffer != nullptr && mode_ == Mode::kBytes && where.offset + where.length <= buffer->length);
  return buffer->bytes.subspan(where.offset, where.length);
}

const TokenMap& Memory::tokens(BufferId id) const {
  const Buffer* buffer = find(id);
  LOCKSTEP_ASSERT(buffer != nullptr && mode_ == Mode::kToken);
  return buffer->map;
}

std::span<std::byte> Memory::open(BufferRef where, Touch touch) {
  LOCKSTEP_ASSERT(mode_ == Mode::kBytes);
  if (where.length == 0) return {};
  if (where.id == kSinkBuffer || where.id == kZeroBuffer) {
    auto& bytes = where.id == kSinkBuffer ? sink_ : zeros_;
    LOCKSTEP_ASSERT(where.offset + where.length <= bytes.size());
    return std::span(bytes).subspan(where.offset, where.length);
  }
  Buffer* buffer = reach(where, touch);
  if (buffer == nullptr) return {};
  return buffer->bytes.subspan(where.offset, where.length);
}

bool Memory::read_token(BufferRef where, Touch touch, Token& out) {
  out = {};
  if (where.length == 0) return true;
  if (where.id == kSinkBuffer || where.id == kZeroBuffer) return false;
  Buffer* buffer = reach(where, touch);
  return buffer != nullptr && buffer->map.read(where.offset, where.length, out);
}

void Memory::write_token(BufferRef where, Touch touch, const Token& token) {
  if (where.length == 0 || where.id == kSinkBuffer) return;
  if (Buffer* buffer = reach(where, touch)) buffer->map.write_token(where.offset, where.length, token);
}

void Memory::spoil(BufferRef where, Touch touch) {
  if (where.length == 0 || where.id == kSinkBuffer) return;
  if (Buffer* buffer = reach(where, touch)) buffer->map.spoil(where.offset, where.length);
}

JobResult Memory::run(const KernelJob& job) {
  if (mode_ == Mode::kToken) return run_tokens(job.work);
  const JobMemory memory = memory_of(job.work);
  const auto into = open(memory.into, Touch::kJob);
  const auto from = open(memory.from, Touch::kJob);
  const auto own = open(memory.own, Touch::kJob);
  const auto residual = open(memory.residual, Touch::kJob);
  if (!trespass_.empty()) return {};
  return run_job(job.work, into, from, own, residual);
}

std::uint64_t Memory::flip_bit(BufferRef where, std::uint64_t luck) {
  if (mode_ == Mode::kToken) {
    Token token;
    (void)read_token(where, Touch::kJob, token);
    token.sum ^= std::uint64_t{1} << (luck & 63U);
    write_token(where, Touch::kJob, token);
    return checksum_of(token, where.length);
  }
  const auto bytes = open(where, Touch::kJob);
  if (bytes.empty()) return 0;
  bytes[(luck >> 8U) % bytes.size()] ^= static_cast<std::byte>(1U << (luck & 7U));
  return checksum(bytes);
}

// ---- kernels on tokens ----

// The operand of a job at this place. `sound`: every byte of it has a meaning.
Memory::Operand Memory::operand(BufferRef where) {
  Operand operand;
  operand.sound = read_token(where, Touch::kJob, operand.token);
  return operand;
}

// An operand with its residual.
Memory::Operand Memory::corrected_operand(const Operand& own, BufferRef residual_at) {
  const Operand residual = operand(residual_at);
  const bool sound = own.sound && residual.sound;
  return {residual_at.length > 0 ? corrected(own.token, residual.token) : own.token, sound};
}

// Writes a result; spoils its place where the result has no meaning. Returns its checksum, 0 for a spoilt one.
std::uint64_t Memory::put(BufferRef into, const Operand& result) {
  if (!result.sound) {
    spoil(into, Touch::kJob);
    return 0;
  }
  write_token(into, Touch::kJob, result.token);
  return checksum_of(result.token, into.length);
}

void Memory::copy_tokens(const CopyJob& job) {
  if (job.into.length == 0) return;
  Buffer* source = reach(job.from, Touch::kJob);
  Buffer* target = reach(job.into, Touch::kJob);
  if (source == nullptr || target == nullptr) return;
  target->map.copy_from(source->map, job.from.offset, job.into.offset, job.into.length);
}

JobResult Memory::fold_tokens(const FoldJob& job, const Operand& from, std::uint64_t stated) {
  JobResult result;
  const Operand own = operand(job.own);
  result.intact = stated == job.expected;
  const Token folded = sim::fold(from.token, own.token, job.type, job.op, job.divisor);
  result.checksum = put(job.into, {folded, from.sound && own.sound && result.intact});
  return result;
}

JobResult Memory::fold_all_tokens(const FoldAllJob& job) {
  const std::uint64_t others = job.from.length / job.own.length;
  const auto part = [&](std::uint64_t i) {
    if (i == job.before) return operand(job.own);
    return operand(job.from.slice((i < job.before ? i : i - 1) * job.own.length, job.own.length));
  };
  Operand folded = part(0);
  for (std::uint64_t i = 1; i <= others; ++i) {
    const Operand next = part(i);
    folded = {sim::fold(folded.token, next.token, job.type, job.op, i == others ? job.divisor : 0),
              folded.sound && next.sound};
  }
  JobResult result;
  result.checksum = put(job.into, folded);
  return result;
}

JobResult Memory::encode_tokens(const EncodeJob& job, const Operand& from) {
  const Operand own = corrected_operand(from, job.residual);
  JobResult result;
  result.intact = true;
  result.checksum = put(job.into, {encoded(weighed(own.token, job.weight), job.departs), own.sound});
  return result;
}

JobResult Memory::recode_tokens(const RecodeJob& job, const Operand& from, std::uint64_t stated) {
  const Operand own = operand(job.own);
  JobResult result;
  result.intact = stated == job.expected;
  const Token sum = add_weighted(decoded(from.token, job.arrived), own.token, job.weight, job.total);
  result.checksum = put(job.into, {encoded(sum, job.departs), from.sound && own.sound && result.intact});
  return result;
}

JobResult Memory::gather_tokens(const GatherJob& job) {
  const std::uint64_t each = encoded_size(job.arrived, job.count);
  Operand sum{{}, true};
  for (std::uint64_t at = 0; at < job.from.length; at += each) {
    const Operand part = operand(job.from.slice(at, each));
    const Token came = decoded(part.token, job.arrived);
    sum = {at == 0 ? came : add_weighted(sum.token, came, 1, 0), sum.sound && part.sound};
  }
  const Operand own = corrected_operand(operand(job.own), job.residual);
  const Token total = add_weighted(sum.token, own.token, job.weight, job.total);
  JobResult result;
  result.checksum = put(job.into, {encoded(total, job.departs), sum.sound && own.sound});
  return result;
}

void Memory::update_residual(const UpdateResidualJob& job, const Operand& from) {
  const Operand own = corrected_operand(from, job.residual);
  (void)put(job.residual, {left_of(own.token, job.weight, job.departs), own.sound});
}

JobResult Memory::run_tokens(const JobWork& work) {
  const BufferRef where = memory_of(work).from;
  const Operand from = operand(where);
  const std::uint64_t stated = checksum_of(from.token, where.length) + (from.sound ? 0U : 1U);
  return std::visit(
      overloaded{
          [&](const HashJob&) { return JobResult{.checksum = stated}; },
          [&](const DigestJob&) {
            return JobResult{.digest = {mix64(stated), stated}};
          },
          [&](const VerifyJob& job) { return JobResult{.intact = stated == job.expected, .checksum = stated}; },
          [&](const CheckJob& job) { return JobResult{.intact = stated == job.expected, .checksum = stated}; },
          [&](const CopyJob& job) {
            copy_tokens(job);
            return JobResult{};
          },
          [&](const FoldJob& job) { return fold_tokens(job, from, stated); },
          [&](const FoldAllJob& job) { return fold_all_tokens(job); },
          [&](const EncodeJob& job) { return encode_tokens(job, from); },
          [&](const RecodeJob& job) { return recode_tokens(job, from, stated); },
          [&](const GatherJob& job) { return gather_tokens(job); },
          [&](const DecodeJob& job) {
            (void)put(job.into, {decoded(from.token, job.arrived), from.sound});
            return JobResult{};
          },
          [&](const UpdateResidualJob& job) {
            update_residual(job, from);
            return JobResult{};
          },
      },
      work);
}

}  // namespace lockstep::sim
