// The memory of one process: real bytes, or tokens that stand for them. Knows which buffer is lent to a call, so that
// every touch outside of one is seen (promise S4).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/buffers/buffer_ref.h"
#include "core/kernels/job.h"
#include "sim/engine/token.h"

namespace lockstep::sim {

enum class Mode : std::uint8_t { kToken, kBytes };

// The contents of one buffer in token mode: neighbouring stretches, each with a token or without a meaning.
class TokenMap {
 public:
  void reset(std::uint64_t length);
  // Bytes [at, at+length) become bytes [begin, begin+length) of `content`.
  void write_content(std::uint64_t at, std::uint64_t length, std::uint64_t content, std::uint64_t begin);
  void write_token(std::uint64_t at, std::uint64_t length, const Token& token);
  void spoil(std::uint64_t at, std::uint64_t length);
  void copy_from(const TokenMap& other, std::uint64_t from, std::uint64_t at, std::uint64_t length);

  // False: a part of it has no meaning, or a token would have to be cut.
  [[nodiscard]] bool read(std::uint64_t at, std::uint64_t length, Token& out) const;

  struct Stretch {
    enum class Kind : std::uint8_t { kSpoilt, kContent, kToken };
    std::uint64_t at = 0;
    std::uint64_t length = 0;
    Kind kind = Kind::kSpoilt;
    std::uint64_t content = 0;  // kContent
    std::uint64_t begin = 0;    // kContent
    Token token;                // kToken
  };
  [[nodiscard]] std::span<const Stretch> stretches() const { return stretches_; }

 private:
  [[nodiscard]] Stretch with_spoilt_neighbours(const Stretch& stretch) const;
  void replace(Stretch stretch);

  std::vector<Stretch> stretches_;  // in order, without gaps
  std::vector<Stretch> scratch_;
};

// The bytes that fill() writes, from byte `from` on: the first one of an element.
// `finite`: none of them is infinite or NaN.
void fill_content(std::span<std::byte> where, std::uint64_t content, DataType type, std::uint64_t from = 0,
                  bool finite = false);

// Why core touches memory; for the words of a failure.
enum class Touch : std::uint8_t { kSend, kLand, kPlace, kJob };

class Memory {
 public:
  explicit Memory(Mode mode);

  // A new buffer, lent to nobody; its bytes have no meaning.
  BufferId make(std::uint64_t length);
  // Bytes mode: bytes of somebody else as a buffer, until it is released.
  BufferId borrow(std::span<std::byte> bytes);
  void release(BufferId id);
  [[nodiscard]] std::size_t buffers() const { return live_; }

  // ---- the application's side ----
  void fill(BufferRef where, std::uint64_t content, DataType type = DataType::kU8, bool finite = false);
  void write(BufferRef where, float value);  // bytes mode
  void lend(BufferId id);
  void take_back(BufferId id);
  // Counts every touch by core; compare to know whether somebody wrote.
  [[nodiscard]] std::uint64_t fingerprint(BufferId id) const;
  [[nodiscard]] std::uint64_t fingerprint(BufferRef where) const;
  [[nodiscard]] std::span<const std::byte> look(BufferRef where) const;  // bytes mode
  [[nodiscard]] const TokenMap& tokens(BufferId id) const;               // token mode

  // ---- core's side; a touch of memory that is not lent is remembered as the first trespass ----
  std::span<std::byte> open(BufferRef where, Touch touch);  // bytes mode
  bool read_token(BufferRef where, Touch touch, Token& out);
  void write_token(BufferRef where, Touch touch, const Token& token);
  void spoil(BufferRef where, Touch touch);
  JobResult run(const KernelJob& job);
  // The nemesis flips a bit that `luck` chooses. Returns the new checksum.
  std::uint64_t flip_bit(BufferRef where, std::uint64_t luck);

  [[nodiscard]] const std::string& trespass() const { return trespass_; }
  [[nodiscard]] Mode mode() const { return mode_; }

 private:
  struct Buffer {
    std::uint64_t length = 0;
    bool lent = false;
    std::vector<std::byte> own;
    std::span<std::byte> bytes;  // its own, or borrowed
    TokenMap map;

    void reset(std::uint64_t size) {
      own.assign(size, std::byte{0xa5});
      bytes = own;
    }
  };
  std::unique_ptr<Buffer> fresh(std::uint64_t length);
  BufferId add(std::unique_ptr<Buffer> buffer);
  Buffer* find(BufferId id) const;
  // Buffers that are always lent: core decides by itself where bytes go.
  struct Standing {
    std::unique_ptr<Buffer> buffer;  // made when it is first needed
    std::unique_ptr<std::byte[]> bytes;
  };
  Buffer* standing(Standing& which, std::uint64_t length);
  Buffer* reach(BufferRef where, Touch touch);

  struct Operand {
    Token token;
    bool sound = false;
  };
  Operand operand(BufferRef where);
  Operand corrected_operand(const Operand& own, BufferRef residual_at);
  std::uint64_t put(BufferRef into, const Operand& result);
  void copy_tokens(const CopyJob& job);
  JobResult fold_tokens(const FoldJob& job, const Operand& from, std::uint64_t stated);
  JobResult fold_all_tokens(const FoldAllJob& job);
  JobResult encode_tokens(const EncodeJob& job, const Operand& from);
  JobResult recode_tokens(const RecodeJob& job, const Operand& from, std::uint64_t stated);
  JobResult gather_tokens(const GatherJob& job);
  void update_residual(const UpdateResidualJob& job, const Operand& from);
  JobResult run_tokens(const JobWork& work);

  Mode mode_;
  std::vector<std::unique_ptr<Buffer>> buffers_;  // by id - kFirstFreeBuffer
  std::vector<std::unique_ptr<Buffer>> spare_;
  std::size_t live_ = 0;
  Standing early_;        // kEarlyBuffer
  Standing early_sends_;  // kEarlySendBuffer
  std::vector<std::byte> sink_;
  std::vector<std::byte> zeros_;
  std::string trespass_;
};

}  // namespace lockstep::sim
