#include "core/kernels/training/sparse_block.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/base/assert.h"
#include "core/kernels/element.h"
#include "core/kernels/float_environment.h"
#include "core/kernels/training/exact_sum.h"
#include "core/kernels/training/top_k.h"

namespace lockstep::training {
namespace {

constexpr std::size_t kHeaderBytes = 16;
constexpr std::uint8_t kFormat = 1;
constexpr unsigned kNewcomers = 1;
constexpr unsigned kWeighted = 2;
constexpr unsigned kLarge = 1;
constexpr unsigned kNegative = 2;

constexpr std::uint64_t bytes_of_places(std::uint64_t elements) { return (3 * elements + 1) / 2; }
constexpr std::uint64_t bytes_of_codes(std::uint64_t elements) { return (elements + 3) / 4; }

template <typename T>
T read(std::span<const std::byte> bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

template <typename T>
void write_at(std::span<std::byte> bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

template <typename T>
std::size_t write_all(std::span<std::byte> bytes, std::size_t at, const std::vector<T>& values) {
  if (!values.empty()) std::memcpy(bytes.data() + at, values.data(), values.size() * sizeof(T));
  return at + values.size() * sizeof(T);
}

// A mean of float32 values of at least 0; 0 without values.
class Mean {
 public:
  void add(float value) {
    sum_.add(value);
    ++count_;
  }
  [[nodiscard]] double value() const { return count_ == 0 ? 0.0 : sum_.rounded() / static_cast<double>(count_); }

 private:
  ExactSum sum_;
  std::uint64_t count_ = 0;
};

}  // namespace

// ---- layout ----

SparseLayout::SparseLayout(std::vector<std::vector<SparseRun>> tensors) : runs_(std::move(tensors)), first_chunks_{0} {
  for (const auto& runs : runs_) {
    std::uint64_t chunks = first_chunks_.back();
    std::uint64_t elements = 0;
    for (const SparseRun& run : runs) {
      LOCKSTEP_ASSERT(run.length >= 1 && run.length <= kLongestChunk && run.most >= 1 && run.most <= run.length);
      chunks += run.chunks;
      elements += run.chunks * run.length;
      most_ += run.chunks * run.most;
    }
    first_chunks_.push_back(chunks);
    elements_.push_back(elements);
  }
}

SparseLayout::Chunk SparseLayout::chunk(std::size_t tensor, std::uint64_t number) const {
  std::uint64_t begin = 0;
  for (const SparseRun& run : runs_[tensor]) {
    if (number < run.chunks) return {.run = run, .begin = begin + number * run.length};
    number -= run.chunks;
    begin += run.chunks * run.length;
  }
  LOCKSTEP_UNREACHABLE();
}

std::optional<std::uint64_t> SparseLayout::chunk_at(std::size_t tensor, std::uint64_t element) const {
  std::uint64_t chunk = 0;
  for (const SparseRun& run : runs_[tensor]) {
    if (element < run.chunks * run.length) {
      if (element % run.length != 0) return std::nullopt;
      return chunk + element / run.length;
    }
    element -= run.chunks * run.length;
    chunk += run.chunks;
  }
  if (element != 0) return std::nullopt;
  return chunk;
}

std::uint64_t SparseLayout::bytes_of(std::uint64_t kept) const {
  return kHeaderBytes + 2 * chunks() + 8 * tensors() + bytes_of_places(kept) + bytes_of_codes(kept);
}

// ---- encoding ----

SparseEncoder::SparseEncoder(const SparseLayout& layout) : layout_(&layout) {
  counts_.reserve(layout.chunks());
  sizes_.reserve(2 * layout.tensors());
  advance();
}

// Skips runs without chunks, and ends tensors that have no more chunks.
void SparseEncoder::advance() {
  while (tensor_ < layout_->tensors()) {
    const auto runs = layout_->runs(tensor_);
    if (run_ < runs.size() && chunk_ < runs[run_].chunks) return;
    chunk_ = 0;
    if (run_ < runs.size() && ++run_ < runs.size()) continue;
    end_tensor();
    ++tensor_;
    run_ = 0;
    begin_ = 0;
  }
}

std::optional<SparseEncoder::Next> SparseEncoder::next() const {
  if (tensor_ == layout_->tensors()) return std::nullopt;
  return Next{.tensor = tensor_, .begin = begin_, .run = layout_->runs(tensor_)[run_]};
}

void SparseEncoder::add(std::span<const float> chunk) {
  LOCKSTEP_ASSERT(tensor_ < layout_->tensors());
  const SparseRun& run = layout_->runs(tensor_)[run_];
  LOCKSTEP_ASSERT(chunk.size() == run.length);
  std::uint16_t places[kLongestChunk];
  const std::size_t before = values_.size();
  values_.resize(before + run.most);
  const std::size_t count = keep_largest(chunk, run.most, places, values_.data() + before);
  values_.resize(before + count);
  counts_.push_back(static_cast<std::uint16_t>(count));
  for (std::size_t i = 0; i < count; ++i) {
    const unsigned place = places[i];
    if (kept_++ % 2 == 0) {
      places_.push_back(static_cast<std::uint8_t>(place & 0xffU));
      places_.push_back(static_cast<std::uint8_t>(place >> 8U));
    } else {
      places_.back() = static_cast<std::uint8_t>(places_.back() | (place & 0xfU) << 4U);
      places_.push_back(static_cast<std::uint8_t>(place >> 4U));
    }
  }
  ++chunk_;
  begin_ += run.length;
  advance();
}

void SparseEncoder::end_tensor() {
  const StandardFloats standard_floats;
  Mean all;
  for (const float value : values_) all.add(std::fabs(value));
  const double middle = all.value();
  Mean small;
  Mean large;
  for (const float value : values_) {
    const float absolute = std::fabs(value);
    const bool is_large = static_cast<double>(absolute) > middle;
    (is_large ? large : small).add(absolute);
    const unsigned code = (is_large ? kLarge : 0U) | (std::signbit(value) ? kNegative : 0U);
    const auto shift = static_cast<unsigned>(coded_++ % 4 * 2);
    if (shift == 0) codes_.push_back(0);
    codes_.back() = static_cast<std::uint8_t>(codes_.back() | code << shift);
  }
  sizes_.push_back(static_cast<float>(small.value()));
  sizes_.push_back(static_cast<float>(large.value()));
  values_.clear();
}

std::uint64_t SparseEncoder::size() const { return layout_->bytes_of(kept_); }

void SparseEncoder::write(const SparseHeader& header, std::span<std::byte> block) const {
  LOCKSTEP_ASSERT(tensor_ == layout_->tensors() && block.size() == size());
  const unsigned flags = (header.has_newcomers ? kNewcomers : 0U) | (header.weight ? kWeighted : 0U);
  write_at(block, 0, kFormat);
  write_at(block, 1, static_cast<std::uint8_t>(flags));
  write_at(block, 2, std::uint16_t{0});
  write_at(block, 4, header.weight.value_or(1.0F));
  write_at(block, 8, header.rate);
  std::size_t at = write_all(block, kHeaderBytes, counts_);
  at = write_all(block, at, sizes_);
  at = write_all(block, at, places_);
  at = write_all(block, at, codes_);
  LOCKSTEP_ASSERT(at == block.size());
}

// ---- decoding ----

SparseBlock::SparseBlock(const SparseLayout& layout, std::span<const std::byte> bytes)
    : layout_(&layout), bytes_(bytes) {}

std::variant<SparseBlock, SparseFlaw> SparseBlock::decode(const SparseLayout& layout,
                                                          std::span<const std::byte> bytes) {
  SparseBlock block(layout, bytes);
  if (const auto flaw = block.check_header()) return *flaw;
  if (const auto flaw = block.check_counts()) return *flaw;
  if (const auto flaw = block.check_sizes()) return *flaw;
  if (const auto flaw = block.check_places()) return *flaw;
  return block;
}

std::optional<SparseFlaw> SparseBlock::check_header() {
  using Kind = SparseFlaw::Kind;
  if (bytes_.size() < kHeaderBytes)
    return SparseFlaw{.kind = Kind::kShort, .found = bytes_.size(), .allowed = kHeaderBytes};
  const auto format = read<std::uint8_t>(bytes_, 0);
  const auto flags = read<std::uint8_t>(bytes_, 1);
  const auto rest = read<std::uint16_t>(bytes_, 2);
  const auto weight = read<float>(bytes_, 4);
  if (format != kFormat || rest != 0 || (flags & ~(kNewcomers | kWeighted)) != 0)
    return SparseFlaw{.kind = Kind::kBegin, .found = format, .allowed = flags, .other = rest};
  const bool is_weighted = (flags & kWeighted) != 0;
  if (!(std::isfinite(weight) && weight >= 0) || !(is_weighted || weight == 1))
    return SparseFlaw{.kind = Kind::kWeight, .number = weight};
  if (is_weighted) header_.weight = weight;
  header_.has_newcomers = (flags & kNewcomers) != 0;
  header_.rate = read<double>(bytes_, 8);
  return std::nullopt;
}

std::optional<SparseFlaw> SparseBlock::check_counts() {
  using Kind = SparseFlaw::Kind;
  const std::uint64_t least = layout_->bytes_of(0);
  if (bytes_.size() < least) return SparseFlaw{.kind = Kind::kShort, .found = bytes_.size(), .allowed = least};
  std::uint64_t elements = 0;
  std::uint64_t chunk = 0;
  first_elements_.reserve(layout_->tensors() + 1);
  first_elements_.push_back(0);
  for (std::size_t tensor = 0; tensor < layout_->tensors(); ++tensor) {
    for (const SparseRun& run : layout_->runs(tensor)) {
      for (std::uint64_t i = 0; i < run.chunks; ++i, ++chunk) {
        const std::uint32_t found = count(chunk);
        if (found > run.most) return SparseFlaw{.kind = Kind::kCount, .at = chunk, .found = found, .allowed = run.most};
        elements += found;
      }
    }
    first_elements_.push_back(elements);
  }
  const std::uint64_t size = layout_->bytes_of(elements);
  if (bytes_.size() != size)
    return SparseFlaw{.kind = Kind::kLength, .found = bytes_.size(), .allowed = size, .other = elements};
  sizes_at_ = kHeaderBytes + 2 * layout_->chunks();
  places_at_ = sizes_at_ + 8 * layout_->tensors();
  codes_at_ = places_at_ + bytes_of_places(elements);
  return std::nullopt;
}

std::optional<SparseFlaw> SparseBlock::check_sizes() const {
  for (std::size_t tensor = 0; tensor < layout_->tensors(); ++tensor) {
    const auto small = read<float>(bytes_, sizes_at_ + 8 * tensor);
    const auto large = read<float>(bytes_, sizes_at_ + 8 * tensor + 4);
    const auto is_allowed = [](float size) { return std::isfinite(size) && !std::signbit(size); };
    if (!is_allowed(small) || !is_allowed(large))
      return SparseFlaw{.kind = SparseFlaw::Kind::kSizes, .at = tensor, .number = small, .second = large};
  }
  return std::nullopt;
}

std::optional<SparseFlaw> SparseBlock::check_places() const {
  using Kind = SparseFlaw::Kind;
  const std::uint64_t elements = first_elements_.back();
  if (elements % 2 != 0 && std::to_integer<unsigned>(bytes_[codes_at_ - 1]) >> 4U != 0)
    return SparseFlaw{.kind = Kind::kSparePlaces};
  if (elements % 4 != 0 && std::to_integer<unsigned>(bytes_.back()) >> (elements % 4 * 2) != 0)
    return SparseFlaw{.kind = Kind::kSpareCodes};
  std::optional<SparseFlaw> order;  // a place outside of its chunk is told first
  std::uint64_t element = 0;
  std::uint64_t chunk = 0;
  for (std::size_t tensor = 0; tensor < layout_->tensors(); ++tensor) {
    for (const SparseRun& run : layout_->runs(tensor)) {
      for (std::uint64_t i = 0; i < run.chunks; ++i, ++chunk) {
        const std::uint64_t end = element + count(chunk);
        std::uint32_t before = 0;
        for (bool is_first = true; element < end; ++element, is_first = false) {
          const std::uint32_t found = place(element);
          if (found >= run.length)
            return SparseFlaw{.kind = Kind::kOutside, .at = chunk, .found = found, .allowed = run.length - 1};
          if (!is_first && found <= before && !order)
            order = SparseFlaw{.kind = Kind::kOrder, .at = chunk, .found = found, .other = before};
          before = found;
        }
      }
    }
  }
  return order;
}

std::uint32_t SparseBlock::count(std::uint64_t chunk) const {
  return read<std::uint16_t>(bytes_, kHeaderBytes + 2 * chunk);
}

std::uint64_t SparseBlock::first_element(std::size_t tensor, std::uint64_t chunk) const {
  std::uint64_t element = first_elements_[tensor];
  const std::uint64_t first = layout_->first_chunk(tensor);
  for (std::uint64_t i = 0; i < chunk; ++i) element += count(first + i);
  return element;
}

std::uint32_t SparseBlock::place(std::uint64_t element) const {
  const std::size_t at = places_at_ + element / 2 * 3;
  if (element % 2 == 0) return read<std::uint16_t>(bytes_, at) & 0xfffU;
  return static_cast<std::uint32_t>(read<std::uint16_t>(bytes_, at + 1) >> 4U);
}

unsigned SparseBlock::code(std::uint64_t element) const {
  return std::to_integer<unsigned>(bytes_[codes_at_ + element / 4]) >> (element % 4 * 2) & 3U;
}

SparseBlock::Values SparseBlock::values(std::size_t tensor) const {
  const auto small = read<float>(bytes_, sizes_at_ + 8 * tensor);
  const auto large = read<float>(bytes_, sizes_at_ + 8 * tensor + 4);
  return {{small, large, -small, -large}};
}

double SparseBlock::energy(std::size_t tensor) const {
  const StandardFloats standard_floats;
  std::uint64_t many = 0;
  for (std::uint64_t i = first_elements_[tensor]; i < first_elements_[tensor + 1]; ++i) many += code(i) & kLarge;
  const auto [of_code] = values(tensor);
  const double small = of_code[0];
  const double large = of_code[1];
  const auto few = static_cast<double>(elements_of(tensor) - many);
  return few * (small * small) + static_cast<double>(many) * (large * large);
}

}  // namespace lockstep::training
