#include "core/flight/recorder.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "core/base/overloaded.h"
#include "core/flight/hash.h"
#include "core/peer/peer.h"
#include "core/wire/link_reader.h"

namespace lockstep::flight {
namespace {

// The usual size of a record: the tail of a window and its description.
constexpr std::size_t kLongRecord = wire::LinkReader::kMaxTailBytes + 4096;
// A shorter hole saves too little, and moving the records behind a hole costs time.
constexpr std::size_t kShortHole = 32;
constexpr std::size_t kManyRecords = std::size_t{64} << 10U;

// The part of `memory` that `bytes` covers.
std::optional<Hole> part_of(std::span<const std::byte> memory, std::span<const std::byte> bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data());
  const auto first = reinterpret_cast<std::uintptr_t>(bytes.data());
  const auto from = std::max(first, begin);
  const auto to = std::min(first + bytes.size(), begin + memory.size());
  if (from >= to) return std::nullopt;
  return Hole{static_cast<std::size_t>(from - begin), static_cast<std::size_t>(to - from)};
}

// The memory of one stream never contains another stream's bytes, and the payloads of a stream come in order.
void add(std::vector<Hole>& holes, const Hole& hole) {
  LOCKSTEP_ASSERT(holes.empty() || holes.back().at + holes.back().bytes <= hole.at);
  holes.push_back(hole);
}

void append_layout(archive::Saver& saver, std::size_t size, std::span<const Hole> holes) {
  saver.number(size);
  saver.number(holes.size());
  std::size_t end = 0;
  for (const Hole& hole : holes) {
    saver.number(hole.at - end);
    saver.number(hole.bytes);
    end = hole.at + hole.bytes;
  }
}

}  // namespace

// Memory that was never written takes no physical pages.
Tape::Tape(Instant born, std::size_t bytes) : half_bytes_(bytes / 2), born_(born), last_(born) {
  halves_[0].last = born;
  for (Half& half : halves_) half.records.reserve(half_bytes_ + kLongRecord);
}

// ---- one step ----

void Tape::begin(std::size_t alternative, Instant now) {
  LOCKSTEP_ASSERT(!stepping_ && now >= last_);
  stepping_ = true;
  alternative_ = static_cast<std::uint8_t>(alternative);
  since_ = static_cast<std::uint64_t>((now - last_).ns);
  last_ = now;
  input_.clear();
  stream_ = {};
  tail_ = {};
  copy_.clear();
  holes_.clear();
}

// A machine moves its memory during a step. So the bytes are copied before the step and cut afterwards to what core
// reads.
void Tape::landed(StreamId stream, std::size_t bytes) {
  const auto at = loans_.find(stream);
  if (at == loans_.end() || bytes <= at->second.place) return;
  stream_ = stream;
  tail_ = at->second.tail.first(bytes - static_cast<std::size_t>(at->second.place));
  copy_.assign(tail_.begin(), tail_.end());
}

// The lent memory moves: earlier bytes are no longer in it.
void Tape::lend(const io::Read& read) {
  loans_[read.stream] = {read.place.length, read.tail};
  if (read.stream == stream_) stream_ = {};
  if (const auto at = landings_.find(read.stream); at != landings_.end()) at->second.memory = {};
}

void Tape::forget(StreamId stream) {
  loans_.erase(stream);
  landings_.erase(stream);
}

// Bytes that arrived with a header go to the caller's memory. They are in the last read or in an earlier one.
void Tape::placed(std::span<const std::byte> bytes) {
  if (const auto hole = part_of(tail_, bytes)) {
    add(holes_, *hole);
    return;
  }
  for (auto& [stream, landing] : landings_) {
    if (const auto hole = part_of(landing.memory, bytes)) return punch(landing, *hole);
  }
}

void Tape::remember_landing(std::size_t at) {
  Landing& landing = landings_[stream_];
  landing.memory = tail_;
  landing.at = at;
  landing.end = halves_[current_].records.size();
  landing.kept = tail_.size();
  for (const Hole& hole : holes_) landing.kept -= hole.bytes;
  landing.holes.assign(holes_.begin(), holes_.end());
}

// Removes the payload from a record that was written before the place of the payload was known.
void Tape::punch(Landing& landing, const Hole& hole) {
  std::vector<std::byte>& records = halves_[current_].records;
  if (hole.bytes < kShortHole || records.size() - landing.end > kManyRecords) return;
  std::size_t before = hole.at;
  for (const Hole& other : landing.holes) before -= other.bytes;
  add(landing.holes, hole);
  const auto kept = std::span(records).subspan(landing.end - landing.kept, landing.kept);
  punched_.clear();
  archive::Saver saver(punched_);
  append_layout(saver, landing.memory.size(), landing.holes);
  saver.bytes(kept.first(before));
  saver.bytes(kept.subspan(before + hole.bytes));
  landing.kept -= hole.bytes;
  const std::size_t shorter = landing.end - landing.at - punched_.size();
  const auto end = std::ranges::copy(punched_, records.begin() + static_cast<std::ptrdiff_t>(landing.at)).out;
  records.erase(end, end + static_cast<std::ptrdiff_t>(shorter));
  landing.end -= shorter;
  for (auto& [stream, other] : landings_) {
    if (other.memory.empty() || other.at <= landing.at) continue;
    other.at -= shorter;
    other.end -= shorter;
  }
}

void Tape::end(std::size_t effects) {
  LOCKSTEP_ASSERT(stepping_);
  stepping_ = false;
  Half& half = halves_[current_];
  append_head(half.records, effects == 0 ? kSilent : std::uint8_t{0});
  const std::size_t at = half.records.size();
  append_landed(half.records);
  if (stream_ != StreamId{}) remember_landing(at);
  if (effects > 0) {
    hash_ = hash_of_answer(answer_, hash_);
    for (unsigned i = 0; i < 4; ++i) half.records.push_back(static_cast<std::byte>(hash_ >> (8 * i)));
  }
  ++half.inputs;
  ++inputs_;
}

void Tape::append_head(std::vector<std::byte>& out, std::uint8_t flags) const {
  const std::uint8_t landed = tail_.empty() ? 0 : kLanded;
  out.push_back(static_cast<std::byte>(alternative_ | landed | flags));
  archive::Saver(out).number(since_);
  out.insert(out.end(), input_.begin(), input_.end());
}

void Tape::append_landed(std::vector<std::byte>& out) const {
  if (tail_.empty()) return;
  archive::Saver saver(out);
  append_layout(saver, tail_.size(), holes_);
  std::size_t end = 0;
  const std::span<const std::byte> all(copy_);
  for (const Hole& hole : holes_) {
    saver.bytes(all.subspan(end, hole.at - end));
    end = hole.at + hole.bytes;
  }
  saver.bytes(all.subspan(end));
}

// ---- the ring ----

Tape::Half& Tape::turn_over() {
  current_ = 1 - current_;
  Half& half = halves_[current_];
  half.before = inputs_;
  half.last = last_;
  half.hash = hash_;
  half.state.clear();
  half.inputs = 0;
  half.records.clear();
  for (auto& [stream, landing] : landings_) landing.memory = {};
  return half;
}

Recording Tape::recording() const {
  const Half& newer = halves_[current_];
  const Half& older = halves_[1 - current_];
  const Half& first = older.inputs > 0 ? older : newer;
  Recording all;
  all.born = born_;
  all.before = first.before;
  all.last = first.last;
  all.hash = first.hash;
  all.state = first.state;
  all.inputs = first.inputs;
  all.records = first.records;
  if (&first != &newer) {
    all.inputs += newer.inputs;
    all.records.insert(all.records.end(), newer.records.begin(), newer.records.end());
  }
  if (stepping_) {
    append_head(all.records, kCut);
    append_landed(all.records);
    ++all.inputs;
    all.cut = true;
  }
  return all;
}

// ---- the machines ----

template <typename Machine>
void Recorder<Machine>::before(const Input& input, Instant now) {
  begin(input.index(), now);
  archive::Saver saver(input_);
  std::visit([&](const auto& one) { fields(saver, one); }, input);
  if (const auto* read = std::get_if<io::ReadDone>(&input)) landed(read->stream, read->bytes);
  if (const auto* revoked = std::get_if<io::Revoked>(&input)) {
    if (revoked->direction == io::Direction::kRead) landed(revoked->stream, revoked->bytes);
  }
  if (const auto* closed = std::get_if<io::Closed>(&input)) forget(closed->stream);
}

template <typename Machine>
void Recorder<Machine>::after(const Effects& effects, const Machine& machine) {
  begin_answer(answer_);
  for (const auto& effect : effects) {
    append_effect(answer_, effect);
    if (const auto* read = std::get_if<io::Read>(&effect)) lend(*read);
    if constexpr (std::is_constructible_v<typename Effects::value_type, io::CopyBytes>) {
      if (const auto* place = std::get_if<io::CopyBytes>(&effect)) placed(place->bytes);
    }
  }
  end(effects.size());
  if (full()) machine.save(turn_over().state);
}

template class Recorder<peer::Peer>;
template class Recorder<coordinator::Coordinator>;

}  // namespace lockstep::flight
