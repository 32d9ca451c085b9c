#include "sim/checkers/a4_excluded.h"

#include <gtest/gtest.h>

namespace lockstep::sim {
namespace {

constexpr io::TokenId kToken{7};
constexpr PeerId kViolator{1, 1};

io::KeyDigest key_of(std::uint8_t n) {
  io::KeyDigest key;
  key.bytes.fill(n);
  return key;
}

trace::Event event_of(trace::Kind kind, Status status = Status::kOk) {
  trace::Event event;
  event.kind = kind;
  event.peer = kViolator;
  event.status = status;
  return event;
}

// Violators with one token, each by a stream of its own.
struct Violators {
  Excluded excluded;
  std::uint64_t streams = 0;

  Complaint join(std::uint8_t key, Instant now) {
    const StreamId stream{++streams};
    excluded.accepted(stream, {key_of(key), kToken, true});
    excluded.reads(stream);
    return excluded.noted(event_of(trace::Kind::kPeerWaiting), now);
  }
  void violate(Instant now) {
    EXPECT_FALSE(excluded.noted(event_of(trace::Kind::kPeerLost, Status::kProtocolError), now));
  }
};

TEST(Excluded, ComplainsOfAKeyThatComesBackTooSoon) {
  Violators peers;
  EXPECT_FALSE(peers.join(1, Instant{}));
  peers.violate(Instant{});
  EXPECT_TRUE(peers.join(1, Instant{} + seconds(9)));
  EXPECT_FALSE(peers.join(2, Instant{} + seconds(9)));
  EXPECT_FALSE(peers.join(1, Instant{} + seconds(10)));
  peers.violate(Instant{} + seconds(10));
  EXPECT_TRUE(peers.join(1, Instant{} + seconds(29)));
  EXPECT_FALSE(peers.join(1, Instant{} + seconds(30)));
}

TEST(Excluded, ComplainsOfASharedTokenAfterThreeViolations) {
  Violators peers;
  for (std::uint8_t key = 1; key <= 3; ++key) {
    EXPECT_FALSE(peers.join(key, Instant{}));
    peers.violate(Instant{});
  }
  EXPECT_TRUE(peers.join(4, Instant{} + seconds(9)));
  EXPECT_FALSE(peers.join(4, Instant{} + seconds(10)));
}

TEST(Excluded, ComplainsOfAPersonalTokenAfterOneViolation) {
  Violators peers;
  peers.excluded.is_personal(kToken);
  EXPECT_FALSE(peers.join(1, Instant{}));
  peers.violate(Instant{});
  EXPECT_TRUE(peers.join(2, Instant{} + seconds(9)));
  EXPECT_FALSE(peers.join(2, Instant{} + seconds(10)));
}

TEST(Excluded, ALostStreamExcludesNobody) {
  Violators peers;
  EXPECT_FALSE(peers.join(1, Instant{}));
  EXPECT_FALSE(peers.excluded.noted(event_of(trace::Kind::kPeerLost, Status::kPeerLost), Instant{}));
  EXPECT_FALSE(peers.join(1, Instant{}));
}

}  // namespace
}  // namespace lockstep::sim
