// Limits of a peer's options (docs/limits.md).
#include <gtest/gtest.h>

#include <string>

#include "core/peer/options.h"
#include "core/wire/limits.h"

namespace lockstep::peer {
namespace {

TEST(OptionLimits, OneAboveIsRefusedWithTheValueAndTheLimit) {
  const struct {
    void (*change)(PeerOptions&);
    std::string error;
  } flaws[] = {
      {[](PeerOptions& o) { o.name.assign(kMaxNameBytes + 1, 'x'); }, "name is 65 bytes long; allowed: at most 64"},
      {[](PeerOptions& o) { o.founders = kMaxMembers + 1; }, "founders is 1025; allowed: 1 to 1024"},
      {[](PeerOptions& o) { o.stripes = kMaxStripes + 1; }, "stripes is 129; allowed: 1 to 128"},
      {[](PeerOptions& o) { o.most_stripes = kMaxStripes + 1; }, "most_stripes is 129; allowed: 0 to 128"},
      {[](PeerOptions& o) { o.window = kRoundWindow + 1; }, "window is 257; allowed: 1 to 256"},
      {[](PeerOptions& o) { o.queued_calls = kMaxQueuedCalls + 1; }, "queued_calls is 65537; allowed: 0 to 65536"},
      {[](PeerOptions& o) { o.eager_segments = kMaxEagerSegments + 1; }, "eager_segments is 65; allowed: 0 to 64"},
  };
  for (const auto& [change, error] : flaws) {
    PeerOptions options;
    change(options);
    EXPECT_EQ(validate_options(options), error);
  }
  EXPECT_EQ(validate_options({}), "");
}

}  // namespace
}  // namespace lockstep::peer
