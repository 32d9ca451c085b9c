// Sparse blocks: the largest elements of each chunk of some tensors, with 12 bits for a place and 2 bits for a value.
//
// A block, little-endian, without gaps:
//
//     u8       format, 1
//     u8       flags: 1: newcomers wait; 2: the contribution has a weight
//     u16      0
//     f32      weight; 1 without
//     f64      rate of the outer step, which is equal on all peers
//     u16      for each chunk: number of its elements in the block
//     f32, f32 for each tensor: the size of its small values, and of its large ones
//     12 bits  for each element: its place in its chunk, ascending;
//              two places in three bytes, the first in the low bits
//     2 bits   for each element: 1: large; 2: negative; four elements in a byte, the first in the low bits
//
// Unused bits at the end of the last two parts are 0.
//
// A value keeps its sign and gets one of two sizes. The elements of a tensor are divided at the mean of their absolute
// values; the size of a small or large value is the mean of the absolute values on its side. Each sum is exact and
// rounded once, to float64, and each mean is rounded to float64, then to float32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

namespace lockstep::training {

// Some chunks of one length. chunks: their number. length: 1 to kLongestChunk. most: of the elements of a chunk that
// are kept, 1 to length.
struct SparseRun {
  std::uint64_t chunks = 0;
  std::uint32_t length = 0;
  std::uint32_t most = 0;
};

// How tensors, which lie one after the other, are cut into chunks.
class SparseLayout {
 public:
  explicit SparseLayout(std::vector<std::vector<SparseRun>> tensors);

  [[nodiscard]] std::size_t tensors() const { return runs_.size(); }
  [[nodiscard]] std::span<const SparseRun> runs(std::size_t tensor) const { return runs_[tensor]; }
  [[nodiscard]] std::uint64_t chunks() const { return first_chunks_.back(); }
  [[nodiscard]] std::uint64_t first_chunk(std::size_t tensor) const { return first_chunks_[tensor]; }
  [[nodiscard]] std::uint64_t chunks_of(std::size_t tensor) const {
    return first_chunks_[tensor + 1] - first_chunks_[tensor];
  }
  [[nodiscard]] std::uint64_t elements(std::size_t tensor) const { return elements_[tensor]; }
  // The run of a chunk of a tensor, and the place of the chunk's first element in the tensor.
  struct Chunk {
    SparseRun run;
    std::uint64_t begin = 0;
  };
  [[nodiscard]] Chunk chunk(std::size_t tensor, std::uint64_t number) const;
  // The chunk that begins at an element of a tensor; nullopt: none does. The end of the tensor counts as a beginning.
  [[nodiscard]] std::optional<std::uint64_t> chunk_at(std::size_t tensor, std::uint64_t element) const;

  [[nodiscard]] std::uint64_t bytes_of(std::uint64_t kept) const;  // of a block with so many elements
  [[nodiscard]] std::uint64_t most_bytes() const { return bytes_of(most_); }

 private:
  std::vector<std::vector<SparseRun>> runs_;
  std::vector<std::uint64_t> first_chunks_;  // of each tensor; then the number of all
  std::vector<std::uint64_t> elements_;      // of each tensor
  std::uint64_t most_ = 0;                   // elements of the largest block
};

struct SparseHeader {
  std::optional<float> weight;
  bool has_newcomers = false;
  double rate = 1;
};

// Writes a block, chunk after chunk. Memory: the block, and the kept elements of one tensor.
class SparseEncoder {
 public:
  // layout: must outlive the encoder.
  explicit SparseEncoder(const SparseLayout& layout);

  // The next chunk of the layout; nullopt after the last one.
  struct Next {
    std::size_t tensor = 0;
    std::uint64_t begin = 0;  // of the chunk, in the tensor
    SparseRun run;
  };
  [[nodiscard]] std::optional<Next> next() const;
  // Takes the largest elements of the next chunk. A NaN or an infinity makes a block that every decoder refuses.
  void add(std::span<const float> chunk);

  // After the last chunk.
  [[nodiscard]] std::uint64_t size() const;  // bytes
  void write(const SparseHeader& header, std::span<std::byte> block) const;

 private:
  void advance();
  void end_tensor();

  const SparseLayout* layout_;
  std::size_t tensor_ = 0;
  std::size_t run_ = 0;
  std::uint64_t chunk_ = 0;  // in the run
  std::uint64_t begin_ = 0;  // of the chunk, in the tensor
  std::vector<std::uint16_t> counts_;
  std::vector<float> sizes_;
  std::vector<std::uint8_t> places_;
  std::vector<std::uint8_t> codes_;
  std::vector<float> values_;  // of the present tensor
  std::uint64_t kept_ = 0;     // elements so far, and of all tensors before
  std::uint64_t coded_ = 0;
};

// The first thing that is wrong with a block.
struct SparseFlaw {
  enum class Kind : std::uint8_t {
    kShort,        // has `found` bytes, fewer than `allowed`
    kBegin,        // the first bytes are `found`, `allowed` (flags) and `other`
    kWeight,       // the weight is `number`
    kCount,        // chunk `at` has `found` elements, more than `allowed`
    kLength,       // has `found` bytes with `other` elements, not `allowed`
    kSizes,        // values of tensor `at` have the sizes `number` and `second`
    kSparePlaces,  // unused bits are set
    kSpareCodes,   // unused bits are set
    kOutside,      // chunk `at` has an element `found`, beyond `allowed`
    kOrder,        // chunk `at` has element `found` after `other`
  };
  Kind kind = Kind::kShort;
  std::uint64_t at = 0;
  std::uint64_t found = 0;
  std::uint64_t allowed = 0;
  std::uint64_t other = 0;
  float number = 0;
  float second = 0;
};

// A block that was checked: each count, place and size is allowed. Refers to the bytes and the layout.
class SparseBlock {
 public:
  // Reads any bytes. Knows the tensors and trusts nothing else.
  static std::variant<SparseBlock, SparseFlaw> decode(const SparseLayout& layout, std::span<const std::byte> bytes);

  [[nodiscard]] const SparseHeader& header() const { return header_; }
  [[nodiscard]] std::uint32_t count(std::uint64_t chunk) const;  // elements of a chunk
  [[nodiscard]] std::uint64_t first_element(std::size_t tensor) const { return first_elements_[tensor]; }
  [[nodiscard]] std::uint64_t elements_of(std::size_t tensor) const {
    return first_elements_[tensor + 1] - first_elements_[tensor];
  }
  // The first element of a chunk of a tensor. Reads the counts before it.
  [[nodiscard]] std::uint64_t first_element(std::size_t tensor, std::uint64_t chunk) const;
  [[nodiscard]] std::uint32_t place(std::uint64_t element) const;  // in its chunk
  [[nodiscard]] unsigned code(std::uint64_t element) const;
  // Values by code: small, large, -small, -large.
  struct Values {
    float of_code[4];
  };
  [[nodiscard]] Values values(std::size_t tensor) const;
  // Sum of the squares of the values of a tensor; equal on all peers.
  [[nodiscard]] double energy(std::size_t tensor) const;

 private:
  SparseBlock(const SparseLayout& layout, std::span<const std::byte> bytes);
  [[nodiscard]] std::optional<SparseFlaw> check_header();
  [[nodiscard]] std::optional<SparseFlaw> check_counts();
  [[nodiscard]] std::optional<SparseFlaw> check_sizes() const;
  [[nodiscard]] std::optional<SparseFlaw> check_places() const;

  const SparseLayout* layout_;
  std::span<const std::byte> bytes_;
  SparseHeader header_;
  std::vector<std::uint64_t> first_elements_;  // of each tensor; then the number of all
  std::size_t sizes_at_ = 0;
  std::size_t places_at_ = 0;
  std::size_t codes_at_ = 0;
};

}  // namespace lockstep::training
