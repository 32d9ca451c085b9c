#include "sim/memory.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/assert.h"
#include "core/kernels/checksum.h"
#include "core/kernels/run_job.h"

namespace lockstep::sim {
namespace {

using Piece = TokenMap::Piece;

// A hash of its own: what checkers know of bytes must not depend on the checksum that core trusts.
std::uint64_t fingerprint_of(std::span<const std::byte> bytes) {
  std::uint64_t hash = mix64(bytes.size());
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min(bytes.size() - at, sizeof word));
    hash = mix64(hash ^ word) + 0x9e3779b97f4a7c15U;
  }
  return hash;
}

// The part [from, to) of a piece. A token that is cut means nothing any more.
Piece part_of(const Piece& piece, std::uint64_t from, std::uint64_t to) {
  Piece part = piece;
  part.at = from;
  part.length = to - from;
  if (piece.kind == Piece::Kind::kContent) part.begin += from - piece.at;
  if (piece.kind == Piece::Kind::kToken && part.length != piece.length) part.kind = Piece::Kind::kSpoilt;
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
  pieces_.clear();
  if (length > 0) pieces_.push_back({0, length, Piece::Kind::kSpoilt, 0, 0, {}});
}

// What means nothing is one piece with its neighbours that mean nothing: bytes that trickle in do not pile up.
Piece TokenMap::with_spoilt_neighbours(const Piece& piece) const {
  std::uint64_t begin = piece.at;
  std::uint64_t end = piece.at + piece.length;
  const auto ends_before = [](const Piece& p, std::uint64_t at) { return p.at + p.length < at; };
  for (auto it = std::lower_bound(pieces_.begin(), pieces_.end(), begin, ends_before);
       it != pieces_.end() && it->at <= piece.at + piece.length; ++it) {
    if (it->kind != Piece::Kind::kSpoilt) continue;
    begin = std::min(begin, it->at);
    end = std::max(end, it->at + it->length);
  }
  Piece wide = piece;
  wide.at = begin;
  wide.length = end - begin;
  return wide;
}

void TokenMap::replace(Piece piece) {
  if (piece.length == 0) return;
  if (piece.kind == Piece::Kind::kSpoilt) piece = with_spoilt_neighbours(piece);
  const std::uint64_t end = piece.at + piece.length;
  const auto ends_after = [](std::uint64_t at, const Piece& p) { return at < p.at + p.length; };
  const auto first = std::upper_bound(pieces_.begin(), pieces_.end(), piece.at, ends_after);
  LOCKSTEP_ASSERT(first != pieces_.end());
  if (first->at == piece.at && first->length == piece.length) {
    *first = piece;
    return;
  }
  scratch_.clear();
  if (first->at < piece.at) scratch_.push_back(part_of(*first, first->at, piece.at));
  scratch_.push_back(piece);
  auto last = first;
  while (last != pieces_.end() && last->at < end) {
    if (last->at + last->length > end) scratch_.push_back(part_of(*last, end, last->at + last->length));
    ++last;
  }
  const auto at = pieces_.erase(first, last);
  pieces_.insert(at, scratch_.begin(), scratch_.end());
}

void TokenMap::write_content(std::uint64_t at, std::uint64_t length, std::uint64_t content, std::uint64_t begin) {
  replace({at, length, Piece::Kind::kContent, content, begin, {}});
}

void TokenMap::write_token(std::uint64_t at, std::uint64_t length, const Token& token) {
  replace({at, length, Piece::Kind::kToken, 0, 0, token});
}

void TokenMap::spoil(std::uint64_t at, std::uint64_t length) { replace({at, length, Piece::Kind::kSpoilt, 0, 0, {}}); }

void TokenMap::copy_from(const TokenMap& other, std::uint64_t from, std::uint64_t at, std::uint64_t length) {
  std::vector<Piece> copied;
  for (const Piece& piece : other.pieces_) {
    const std::uint64_t begin = std::max(piece.at, from);
    const std::uint64_t end = std::min(piece.at + piece.length, from + length);
    if (begin >= end) continue;
    Piece part = part_of(piece, begin, end);
    part.at = at + (begin - from);
    copied.push_back(part);
  }
  for (const Piece& piece : copied) replace(piece);
}

bool TokenMap::read(std::uint64_t at, std::uint64_t length, Token& out) const {
  out = {};
  if (length == 0) return true;
  const std::uint64_t end = at + length;
  const auto ends_after = [](std::uint64_t x, const Piece& p) { return x < p.at + p.length; };
  bool whole = true;
  for (auto it = std::upper_bound(pieces_.begin(), pieces_.end(), at, ends_after); it != pieces_.end() && it->at < end;
       ++it) {
    const Piece part = part_of(*it, std::max(it->at, at), std::min(it->at + it->length, end));
    switch (part.kind) {
      case Piece::Kind::kSpoilt:
        whole = false;
        out += {mix64(part.at), mix64(part.length)};
        break;
      case Piece::Kind::kContent: out += token_of_content(part.content, part.begin, part.begin + part.length); break;
      case Piece::Kind::kToken: out += part.token; break;
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

// Always lent: core says itself what lies where.
Memory::Buffer* Memory::early() {
  if (early_ != nullptr) return early_.get();
  early_ = std::make_unique<Buffer>();
  early_->length = kEarlySlots * kEarlySlotBytes;
  early_->lent = true;
  if (mode_ == Mode::kBytes) {
    // As it comes: only the slots that are used are ever touched.
    early_bytes_ = std::make_unique_for_overwrite<std::byte[]>(early_->length);
    early_->bytes = {early_bytes_.get(), early_->length};
  } else {
    early_->map.reset(early_->length);
  }
  return early_.get();
}

Memory::Buffer* Memory::reach(BufferRef where, Touch touch) {
  Buffer* buffer = where.id == kEarlyBuffer ? early() : find(where.id);
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

// Floats lie within some powers of two of each other, so that another order of folding gives other bits; one in 64 is any
// bit pattern (NaN, infinity, denormal). Integers are any bit pattern.
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
  }
  LOCKSTEP_UNREACHABLE();
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
  for (std::size_t i = 0; i + width <= where.size(); i += width) {
    const std::uint64_t element = element_of(type, draw(content, 5, from + i), finite);
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
  if (mode_ == Mode::kToken) return run_tokens(job);
  const auto into = open(job.into, Touch::kJob);  // nothing where a kind does not use it
  const auto from = open(job.from, Touch::kJob);
  const auto own = open(job.own, Touch::kJob);
  const auto residual = open(job.residual, Touch::kJob);
  if (!trespass_.empty()) return {};
  return run_job(job, into, from, own, residual);
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

JobResult Memory::run_tokens(const KernelJob& job) {
  JobResult result;
  Token from;
  const bool whole = read_token(job.from, Touch::kJob, from);
  const std::uint64_t stated = checksum_of(from, job.from.length) + (whole ? 0U : 1U);
  const auto put = [&](bool sound, const Token& token) {
    sound ? write_token(job.into, Touch::kJob, token) : spoil(job.into, Touch::kJob);
    return sound;
  };
  const auto correct = [&](Token& own) {
    Token residual;
    const bool sound = read_token(job.residual, Touch::kJob, residual);
    if (job.residual.length > 0) own = corrected(own, residual);
    return sound;
  };
  switch (job.kind) {
    case JobKind::kHash: result.checksum = stated; break;
    case JobKind::kDigest: result.digest = {mix64(stated), stated}; break;
    case JobKind::kVerify:
    case JobKind::kCheck:
      result.intact = stated == job.expected;
      result.checksum = stated;
      break;
    case JobKind::kCopy: {
      if (job.into.length == 0) break;
      Buffer* source = reach(job.from, Touch::kJob);
      Buffer* target = reach(job.into, Touch::kJob);
      if (source != nullptr && target != nullptr) {
        target->map.copy_from(source->map, job.from.offset, job.into.offset, job.into.length);
      }
      break;
    }
    case JobKind::kFold: {
      Token own;
      const bool own_whole = read_token(job.own, Touch::kJob, own);
      result.intact = stated == job.expected;
      const Token folded = sim::fold(from, own, job.type, job.op, job.divisor);
      if (put(whole && own_whole && result.intact, folded)) result.checksum = checksum_of(folded, job.into.length);
      break;
    }
    case JobKind::kEncode:
    case JobKind::kRecode: {
      const bool alone = job.kind == JobKind::kEncode;
      Token own;
      bool own_whole = alone ? whole : read_token(job.own, Touch::kJob, own);
      own_whole = correct(alone ? from : own) && own_whole;
      result.intact = alone || stated == job.expected;
      const Token sum =
          alone ? weighed(from, job.weight) : add_weighted(decoded(from, job.arrived), own, job.weight, job.total);
      const Token encoded = sim::encoded(sum, job.departs);
      if (put(whole && own_whole && result.intact, encoded)) result.checksum = checksum_of(encoded, job.into.length);
      break;
    }
    case JobKind::kGather: {
      const std::uint64_t each = encoded_size(job.arrived, job.count);
      Token sum;
      bool sound = true;
      for (std::uint64_t at = 0; at < job.from.length; at += each) {
        Token part;
        sound = read_token(job.from.slice(at, each), Touch::kJob, part) && sound;
        const Token came = decoded(part, job.arrived);
        sum = at == 0 ? came : add_weighted(sum, came, 1, 0);
      }
      Token own;
      sound = read_token(job.own, Touch::kJob, own) && sound;
      sound = correct(own) && sound;
      const Token encoded = sim::encoded(add_weighted(sum, own, job.weight, job.total), job.departs);
      if (put(sound, encoded)) result.checksum = checksum_of(encoded, job.into.length);
      break;
    }
    case JobKind::kDecode: put(whole, decoded(from, job.arrived)); break;
    case JobKind::kLeave:
      if (correct(from) && whole) {
        write_token(job.residual, Touch::kJob, left_of(from, job.weight, job.departs));
      } else {
        spoil(job.residual, Touch::kJob);
      }
      break;
  }
  return result;
}

}  // namespace lockstep::sim
