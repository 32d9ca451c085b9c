// Simulated streams keep the contract of core/io/stream.h, and fail in the ways that were asked for.
#include "sim/network/network.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::sim {
namespace {

constexpr std::uint16_t kPort = 4000;

// Two processes on hosts 1 and 2; process 1 listens. The test keeps their inputs.
class Pair : public NetworkUser, public testing::Test {
 public:
  void tell(std::uint32_t process, io::Input input) override { told_[process].push_back(std::move(input)); }
  Memory& memory_of(std::uint32_t process) override { return *memory_[process]; }
  std::uint32_t listener(std::uint32_t host, std::uint16_t port, std::uint32_t) override {
    return host == 2 && port == kPort && listening_ ? 1 : kNoProcess;
  }
  std::uint32_t host_of(std::uint32_t process) override { return process + 1; }
  bool lies_about(std::uint32_t, const BufferRef& payload) override { return payload.id == false_; }
  void contract_broken(std::uint32_t, std::string what) override { broken_.push_back(std::move(what)); }

 protected:
  void begin(const NetworkOptions& options = {}, std::uint64_t seed = 1) {
    dice_ = Dice(seed);
    queue_.emplace(dice_);
    network_.emplace(options, 3, dice_, *queue_, *this);
    for (auto& m : memory_) m = std::make_unique<Memory>(options.mode);
  }
  void run_for(Duration duration) {
    const Instant end = now_ + duration;
    while (!queue_->empty() && queue_->top().at <= end.ns) {
      const Event event = queue_->pop();
      now_ = Instant{event.at};
      network_->handle(event, now_);
    }
    now_ = end;
  }
  template <typename T>
  std::size_t count(std::uint32_t process) {
    return static_cast<std::size_t>(std::count_if(told_[process].begin(), told_[process].end(),
                                                  [](const auto& in) { return std::holds_alternative<T>(in); }));
  }
  template <typename T>
  const T& last(std::uint32_t process) {
    for (auto it = told_[process].rbegin(); it != told_[process].rend(); ++it) {
      if (const T* found = std::get_if<T>(&*it)) return *found;
    }
    throw std::runtime_error("never told");
  }
  void connect() {
    network_->dial(0, {kDialled, Network::address_of(2, kPort)}, now_);
    run_for(milliseconds(5));
    ASSERT_EQ(count<io::Opened>(0), 1U);
    ASSERT_EQ(count<io::Accepted>(1), 1U);
  }
  void write(const std::string& text) {
    sent_.push_back(std::make_unique<std::string>(text));
    io::Write write{kDialled, {}};
    write.slices.push({std::as_bytes(std::span(*sent_.back())), {}});
    network_->write(0, write, now_);
  }
  void read() { network_->read(1, {kAccepted, {}, std::as_writable_bytes(std::span(buffer_))}, now_); }
  // Everything that comes within so long.
  std::string read_all(Duration duration) {
    std::string text;
    const Instant end = now_ + duration;
    std::size_t seen = count<io::ReadDone>(1);
    read();
    while (now_ < end) {
      run_for(milliseconds(1));
      if (count<io::Closed>(1) > 0) break;
      if (count<io::ReadDone>(1) == seen) continue;
      seen += 1;
      text.append(buffer_, last<io::ReadDone>(1).bytes);
      read();
    }
    return text;
  }

  // Bytes 100 to 600 of one buffer to byte 300 of another, in parts.
  void carry(BufferId from, BufferId into) {
    std::size_t written = 0;
    std::size_t landed = 0;
    std::size_t writes = count<io::WriteDone>(0);
    std::size_t reads = count<io::ReadDone>(1);
    const auto write_rest = [&] {
      io::Write write{kDialled, {}};
      write.slices.push({{}, BufferRef{from, 100 + written, 500 - written}});
      network_->write(0, write, now_);
    };
    const auto read_rest = [&] {
      network_->read(
          1, {kAccepted, BufferRef{into, 300 + landed, 500 - landed}, std::as_writable_bytes(std::span(buffer_))},
          now_);
    };
    write_rest();
    read_rest();
    for (int i = 0; i < 1000 && landed < 500; ++i) {
      run_for(microseconds(50));
      if (count<io::WriteDone>(0) > writes) {
        writes += 1;
        written += last<io::WriteDone>(0).bytes;
        if (written < 500) write_rest();
      }
      if (count<io::ReadDone>(1) > reads) {
        reads += 1;
        landed += last<io::ReadDone>(1).bytes;
        if (landed < 500) read_rest();
      }
    }
    ASSERT_EQ(landed, 500U);
  }

  static constexpr StreamId kDialled{2};
  static constexpr StreamId kAccepted{1};
  Dice dice_{1};
  std::optional<EventQueue> queue_;
  std::optional<Network> network_;
  std::unique_ptr<Memory> memory_[2];
  std::vector<io::Input> told_[2];
  std::vector<std::string> broken_;
  std::vector<std::unique_ptr<std::string>> sent_;
  char buffer_[64] = {};
  bool listening_ = true;
  BufferId false_;
  Instant now_;
};

TEST_F(Pair, BytesArriveInOrderAcrossCuts) {
  for (std::uint64_t seed = 1; seed < 20; ++seed) {
    NetworkOptions options;
    options.mode = Mode::kBytes;
    options.short_permille = 700;
    options.pieces_permille = 300;
    options.window_bytes = 7;
    told_[0].clear();
    told_[1].clear();
    begin(options, seed);
    connect();
    const std::string text = "the quick brown fox jumps over the lazy dog";
    write(text);
    std::string got;
    std::size_t done = 0;
    std::size_t writes = 0;
    std::size_t reads = 0;
    read();
    for (int i = 0; i < 2000 && got.size() < text.size(); ++i) {
      run_for(microseconds(100));
      if (count<io::WriteDone>(0) > writes) {
        writes += 1;
        done += last<io::WriteDone>(0).bytes;
        if (done < text.size()) write(text.substr(done));
      }
      if (count<io::ReadDone>(1) > reads) {
        reads += 1;
        got.append(buffer_, last<io::ReadDone>(1).bytes);
        read();
      }
    }
    EXPECT_EQ(got, text);
    EXPECT_TRUE(broken_.empty()) << broken_.front();
  }
}

TEST_F(Pair, AnOrderlyEndComesAfterTheBytes) {
  begin({.mode = Mode::kBytes});
  connect();
  write("bye");
  run_for(milliseconds(1));
  network_->close(0, {kDialled, true}, now_);
  EXPECT_EQ(read_all(seconds(1)), "bye");
  EXPECT_EQ(last<io::Closed>(0).reason, io::CloseReason::kAsked);
  EXPECT_EQ(last<io::Closed>(1).reason, io::CloseReason::kEnd);
}

TEST_F(Pair, BytesAreHeldByACutAndComeWhenItHeals) {
  begin({.mode = Mode::kBytes});
  connect();
  network_->cut(1, 2);
  write("late");
  EXPECT_EQ(read_all(seconds(1)), "");
  network_->heal(1, 2, now_);
  run_for(seconds(1));
  EXPECT_EQ(std::string(buffer_, last<io::ReadDone>(1).bytes), "late");
}

TEST_F(Pair, ACutOfTheOtherWayLetsBytesThroughUntilTheWindowIsFull) {
  begin({.mode = Mode::kBytes, .window_bytes = 4});
  connect();
  network_->cut(2, 1);
  write("12345678");
  EXPECT_EQ(read_all(seconds(1)), "1234");
  network_->heal(2, 1, now_);
  write("5678");
  run_for(seconds(1));
  EXPECT_EQ(std::string(buffer_, last<io::ReadDone>(1).bytes), "5678");
}

// A hundredth of a second of a slow line at once, so that other streams have their turns, and never less than a packet.
TEST_F(Pair, AWriteGoesOntoASlowLineInPieces) {
  for (const auto& [rate, piece] : {std::pair{1'000'000U, 10'000U}, std::pair{10'000U, 1500U}}) {
    begin({.mode = Mode::kBytes, .rate_bytes_per_s = rate});
    told_[0].clear();
    told_[1].clear();
    connect();
    write(std::string(40'000, 'x'));
    run_for(milliseconds(1));
    EXPECT_EQ(last<io::WriteDone>(0).bytes, piece);
  }
}

TEST_F(Pair, BothSidesSeeAReset) {
  begin();
  connect();
  EXPECT_EQ(network_->reset(1, 2, now_), 1U);
  write("x");
  read();
  run_for(seconds(1));
  EXPECT_EQ(last<io::Closed>(0).reason, io::CloseReason::kReset);
  EXPECT_EQ(last<io::Closed>(1).reason, io::CloseReason::kReset);
}

TEST_F(Pair, ASilentStreamTakesBytesUntilTheWindowIsFullAndNeverEnds) {
  begin({.window_bytes = 4});
  connect();
  EXPECT_EQ(network_->silence(1, 2), 1U);
  write("12345678");
  run_for(seconds(100));
  EXPECT_EQ(last<io::WriteDone>(0).bytes, 4U);
  write("5678");
  EXPECT_EQ(read_all(seconds(1)), "");
  EXPECT_EQ(count<io::WriteDone>(0), 1U);
  EXPECT_EQ(count<io::Closed>(0) + count<io::Closed>(1), 0U);
}

TEST_F(Pair, ADialWithoutAListenerIsRefused) {
  begin();
  listening_ = false;
  network_->dial(0, {kDialled, Network::address_of(2, kPort)}, now_);
  run_for(seconds(1));
  EXPECT_EQ(last<io::Closed>(0).reason, io::CloseReason::kRefused);
}

TEST_F(Pair, AStreamThatOpensTellsItsRoundTrip) {
  NetworkOptions options;
  options.latency_lo_ns = options.latency_hi_ns = 7'000'000;
  begin(options);
  network_->dial(0, {kDialled, Network::address_of(2, kPort)}, now_);
  run_for(seconds(1));
  EXPECT_EQ(last<io::Opened>(0).round_trip, milliseconds(14));
}

TEST_F(Pair, DiallingThroughACutHangsThenOpensWhenItHeals) {
  begin();
  network_->cut(2, 1);
  network_->dial(0, {kDialled, Network::address_of(2, kPort)}, now_);
  run_for(seconds(3));
  EXPECT_TRUE(told_[0].empty());
  network_->heal(2, 1, now_);
  run_for(seconds(3));
  EXPECT_EQ(count<io::Opened>(0), 1U);
}

TEST_F(Pair, DiallingASilentMachineTimesOut) {
  begin();
  connect();
  network_->died(1, Death::kSilence, now_);
  listening_ = false;
  network_->dial(0, {StreamId{4}, Network::address_of(2, kPort)}, now_);
  run_for(seconds(30));
  EXPECT_EQ(last<io::Closed>(0).stream, StreamId{4});
  EXPECT_EQ(last<io::Closed>(0).reason, io::CloseReason::kTimedOut);
}

TEST_F(Pair, AMachineThatReturnsResetsTheStreamsOfItsFormerLife) {
  begin();
  connect();
  network_->read(0, {kDialled, {}, std::as_writable_bytes(std::span(buffer_))}, now_);
  network_->died(1, Death::kSilence, now_);
  run_for(seconds(10));
  EXPECT_EQ(count<io::Closed>(0), 0U);
  network_->host_returned(2, now_);
  run_for(seconds(1));
  EXPECT_EQ(last<io::Closed>(0).reason, io::CloseReason::kReset);
}

// A part of a frame is lost in the silence, and the next part is sent while the reset is on its way back: nobody reads
// either.
TEST_F(Pair, WritesToAReturnedMachineMayLeaveAGap) {
  begin({.mode = Mode::kToken, .short_permille = 1000});
  connect();
  network_->died(1, Death::kSilence, now_);
  Memory& memory = *memory_[0];
  const BufferId payload = memory.make(100);
  memory.fill({payload, 0, 100}, 7);
  memory.lend(payload);
  for (std::size_t writes = 1, done = 0; done < 100; ++writes) {
    io::Write rest{kDialled, {}};
    rest.slices.push({{}, {payload, done, 100 - done}});
    network_->write(0, rest, now_);
    while (count<io::WriteDone>(0) < writes)
      run_for(milliseconds(1));  // long enough to arrive, and find the machine silent
    done += last<io::WriteDone>(0).bytes;
  }
  network_->host_returned(2, now_);
  write("a header");
  run_for(microseconds(10));
  EXPECT_EQ(broken_, std::vector<std::string>{});
}

TEST_F(Pair, ARevokedLoanComesBackWithItsLandedBytes) {
  std::size_t midway = 0;
  for (std::uint64_t seed = 1; seed < 200; ++seed) {
    told_[0].clear();
    told_[1].clear();
    begin({.mode = Mode::kBytes, .short_permille = 500, .pieces_permille = 500}, seed);
    connect();
    std::string rest = "0123456789";
    for (std::size_t writes = 1; !rest.empty(); ++writes) {
      write(rest);
      while (count<io::WriteDone>(0) < writes) run_for(microseconds(10));
      rest.erase(0, last<io::WriteDone>(0).bytes);
    }
    run_for(milliseconds(1));
    read();
    run_for(nanoseconds(static_cast<std::int64_t>(seed) * 20));
    if (count<io::ReadDone>(1) == 0) {
      network_->revoke(1, {kAccepted, io::Direction::kRead}, now_);
      run_for(milliseconds(10));
      ASSERT_EQ(count<io::Revoked>(1), 1U);
      midway += last<io::Revoked>(1).bytes > 0 ? 1 : 0;
      std::size_t bytes = last<io::Revoked>(1).bytes;
      if (count<io::ReadDone>(1) > 0) bytes += last<io::ReadDone>(1).bytes;
      const std::string first(buffer_, bytes);
      EXPECT_EQ(first + read_all(milliseconds(20)), "0123456789");
    }
  }
  EXPECT_GT(midway, 0U);
  EXPECT_TRUE(broken_.empty());
}

TEST_F(Pair, BreakingTheContractIsSeen) {
  begin();
  connect();
  read();
  read();
  EXPECT_EQ(broken_.size(), 1U);
  network_->write(0, {StreamId{98}, {}}, now_);
  EXPECT_EQ(broken_.size(), 2U);
  network_->revoke(1, {kAccepted, io::Direction::kWrite}, now_);
  EXPECT_EQ(broken_.size(), 3U);
  network_->close(0, {kDialled, false}, now_);
  write("x");
  EXPECT_EQ(broken_.size(), 4U);
}

TEST_F(Pair, APayloadCarriesItsTokenAndStopsTheReadAtItsEnd) {
  begin({.mode = Mode::kToken, .short_permille = 500, .pieces_permille = 200});
  connect();
  const BufferId from = memory_[0]->make(1000);
  const BufferId into = memory_[1]->make(1000);
  memory_[0]->fill({from, 0, 1000}, 9);
  memory_[0]->lend(from);
  memory_[1]->lend(into);
  carry(from, into);
  Token token;
  EXPECT_TRUE(memory_[1]->read_token({into, 300, 500}, Touch::kJob, token));
  EXPECT_EQ(token, token_of_content(9, 100, 600));
  EXPECT_TRUE(broken_.empty());
}

TEST_F(Pair, AFalsifiedPayloadArrivesWholeWithOtherBytes) {
  for (const Mode mode : {Mode::kToken, Mode::kBytes}) {
    told_[0].clear();
    told_[1].clear();
    false_ = {};
    begin({.mode = mode, .short_permille = 500, .pieces_permille = 200});
    connect();
    const BufferRef sent{memory_[0]->make(1000), 100, 500};
    const BufferRef came{memory_[1]->make(1000), 300, 500};
    memory_[0]->fill({sent.id, 0, 1000}, 9);
    memory_[0]->lend(sent.id);
    memory_[1]->lend(came.id);
    const std::uint64_t before = memory_[0]->fingerprint(sent);
    carry(sent.id, came.id);
    EXPECT_EQ(memory_[1]->fingerprint(came), before);
    false_ = sent.id;
    carry(sent.id, came.id);
    EXPECT_NE(memory_[1]->fingerprint(came), before);
    EXPECT_EQ(memory_[0]->fingerprint(sent), before) << "its own memory is what it was";
    if (mode == Mode::kToken) {
      Token token;
      EXPECT_TRUE(memory_[1]->read_token(came, Touch::kJob, token)) << "and no rubbish";
    }
    EXPECT_TRUE(broken_.empty());
  }
}

TEST_F(Pair, APayloadThatComesWithItsHeaderMeansSomethingWhereItIsPlaced) {
  begin({.mode = Mode::kToken, .short_permille = 0, .pieces_permille = 0, .apart_permille = 0});
  connect();
  const BufferId from = memory_[0]->make(100);
  const BufferId into = memory_[1]->make(100);
  memory_[0]->fill({from, 0, 100}, 9);
  memory_[0]->lend(from);
  memory_[1]->lend(into);
  const std::string header = "head";
  io::Write write{kDialled, {}};
  write.slices.push({std::as_bytes(std::span(header)), {}});
  write.slices.push({{}, BufferRef{from, 0, 100}});
  network_->write(0, write, now_);
  read();  // has room for the header and 60 bytes
  run_for(milliseconds(1));
  ASSERT_EQ(last<io::ReadDone>(1).bytes, 64U);
  const auto early = std::as_bytes(std::span(buffer_)).subspan(4);
  network_->place(1, {BufferRef{into, 0, 60}, early});
  network_->read(1, {kAccepted, BufferRef{into, 60, 40}, {}}, now_);
  run_for(milliseconds(1));
  ASSERT_EQ(last<io::ReadDone>(1).bytes, 40U);
  Token token;
  EXPECT_TRUE(memory_[1]->read_token({into, 0, 100}, Touch::kJob, token));
  EXPECT_EQ(token, token_of_content(9, 0, 100));
  EXPECT_TRUE(broken_.empty());
  network_->place(1, {BufferRef{into, 0, 60}, early});  // that is over
  EXPECT_EQ(broken_.size(), 1U);
}

TEST_F(Pair, BandwidthAndLatencyTakeTime) {
  begin({.mode = Mode::kBytes,
         .latency_lo_ns = 10'000'000,
         .latency_hi_ns = 10'000'000,
         .jitter_ns = 0,
         .rate_bytes_per_s = 1000,
         .short_permille = 0,
         .pieces_permille = 0});
  network_->dial(0, {kDialled, Network::address_of(2, kPort)}, now_);
  run_for(milliseconds(19));
  EXPECT_EQ(count<io::Opened>(0), 0U);
  run_for(milliseconds(2));
  EXPECT_EQ(count<io::Opened>(0), 1U);
  write(std::string(50, 'x'));  // 50 ms on the wire, 10 ms to get there
  EXPECT_EQ(read_all(milliseconds(59)), "");
  run_for(milliseconds(3));
  EXPECT_EQ(last<io::ReadDone>(1).bytes, 50U);
}

}  // namespace
}  // namespace lockstep::sim
