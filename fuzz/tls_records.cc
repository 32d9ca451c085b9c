// The other side of a session, which has the right keys, and seals what the input says: content, messages of TLS, and
// records of any type; or sends bytes that are no record. The reader gives the content that was sealed before the
// first thing that it refuses, never a byte more, and stays with its refusal.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/base/assert.h"
#include "fuzz/choices.h"
#include "fuzz/door.h"
#include "transport/tls/records.h"

namespace tls = lockstep::transport::tls;

namespace {

using Outcome = tls::RecordReader::Outcome;

constexpr std::size_t kMostSteps = 64;
constexpr std::size_t kHeaderBytes = 5;

// Seals records of every type.
class FarEnd {
 public:
  FarEnd(tls::Cipher cipher, const tls::TrafficSecret& secret) : key_(cipher, secret, tls::Aead::Use::kEncrypt) {}

  void seal(std::uint8_t type, std::span<const std::byte> content, tls::ByteQueue& to) {
    const std::size_t body = content.size() + 1 + tls::kTagBytes;
    const std::array<std::byte, kHeaderBytes> header{std::byte{23}, std::byte{3}, std::byte{3},
                                                     static_cast<std::byte>(body >> 8U),
                                                     static_cast<std::byte>(body & 0xffU)};
    std::vector<std::byte> inner(content.begin(), content.end());
    inner.push_back(std::byte{type});
    tls::Aead& aead = key_.begin(header);
    aead.apply(inner, inner.data());
    to.append(header);
    to.append(inner);
    to.append(aead.tag());
  }
  void update() { key_.update(); }

 private:
  tls::RecordKey key_;
};

class Session {
 public:
  Session(tls::Cipher cipher, const tls::TrafficSecret& secret) : far_end_(cipher, secret), reader_(cipher, secret) {}

  void send(lockstep::fuzz::Choices& choices) {
    std::vector<std::byte> bytes(choices.below(8) == 0 ? choices.byte() * 64U : choices.byte() % 40U);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte{i < 8 ? choices.byte() : filler_++};
    switch (choices.below(5)) {
      case 0: line_.append(bytes); break;
      case 1: far_end_.seal(choices.byte(), bytes, line_); break;
      case 2: send_update(choices); break;
      default:
        far_end_.seal(23, bytes, line_);
        if (!strange_) sealed_.insert(sealed_.end(), bytes.begin(), bytes.end());
        return;
    }
    strange_ = true;
  }

  void read(std::size_t room) {
    std::vector<std::byte> into(room);
    const asio::mutable_buffer buffer(into.data(), into.size());
    tls::Destination to({&buffer, 1});
    const auto step = reader_.read(line_, to);
    LOCKSTEP_ASSERT(step.bytes <= into.size());
    LOCKSTEP_ASSERT(!refused_ || step.outcome == Outcome::kBroken);
    LOCKSTEP_ASSERT(step.outcome == Outcome::kContent || step.bytes == 0);
    if (step.outcome == Outcome::kBroken) {
      LOCKSTEP_ASSERT(strange_ && !reader_.why().empty());
      refused_ = true;
    }
    received_.insert(received_.end(), into.begin(), into.begin() + static_cast<std::ptrdiff_t>(step.bytes));
    // What follows an update, or a record of type 23, is content as well.
    const std::size_t known = std::min(received_.size(), sealed_.size());
    LOCKSTEP_ASSERT(
        std::equal(received_.begin(), received_.begin() + static_cast<std::ptrdiff_t>(known), sealed_.begin()));
    LOCKSTEP_ASSERT(strange_ || received_.size() <= sealed_.size());
  }

 private:
  void send_update(lockstep::fuzz::Choices& choices) {
    const std::array<std::byte, 5> message{std::byte{24}, {}, {}, std::byte{1}, std::byte{choices.byte()}};
    far_end_.seal(22, message, line_);
    far_end_.update();
  }

  FarEnd far_end_;
  tls::RecordReader reader_;
  tls::ByteQueue line_;
  std::vector<std::byte> sealed_;  // before the first thing that may be refused
  std::vector<std::byte> received_;
  std::uint8_t filler_ = 0;
  bool strange_ = false;
  bool refused_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  lockstep::fuzz::Choices choices(std::span(data, size));
  const auto cipher = choices.one_in(2) ? tls::Cipher::kAes128Gcm : tls::Cipher::kChaCha20Poly1305;
  Session session(cipher, tls::TrafficSecret{});
  for (std::size_t step = 0; step < kMostSteps && !choices.empty(); ++step) {
    if (choices.one_in(2)) {
      session.send(choices);
    } else {
      session.read(choices.one_in(3) ? 20'000 : 1U + choices.byte());
    }
  }
  return 0;
}
