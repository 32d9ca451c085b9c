// Streams between processes, with the properties of TCP: ordered bytes with delay, bandwidth and a window, cut
// anywhere; and their faults: cut links, resets, silence, dials that hang or are refused. Carries out core's io effects
// and answers late, at random moments that the contract of core/io/stream.h allows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/assert.h"
#include "core/base/time.h"
#include "core/io/stream.h"
#include "sim/engine/dice.h"
#include "sim/engine/event.h"
#include "sim/engine/memory.h"
#include "sim/engine/steady_vector.h"
#include "sim/network/flows.h"
#include "sim/network/liar.h"
#include "sim/network/network_options.h"
#include "sim/network/ways.h"
#include "sim/network/wire_witness.h"
#include "sim/network/withholding.h"

namespace lockstep::sim {

// First in, first out; keeps its memory.
template <typename T>
class Fifo {
 public:
  [[nodiscard]] bool empty() const { return first_ == entries_.size(); }
  [[nodiscard]] T& front() { return entries_[first_]; }
  [[nodiscard]] T& back() { return entries_.back(); }
  T& push_back(const T& entry) { return entries_.emplace_back(entry); }
  void pop_front() {
    first_ += 1;
    if (first_ < entries_.size() && first_ < kCompactAt) return;
    entries_.erase(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
  }
  void clear() {
    entries_.clear();
    first_ = 0;
  }

 private:
  static constexpr std::size_t kCompactAt = 1024;
  std::vector<T> entries_;
  std::size_t first_ = 0;
};

// The receiver of the network's answers: World; in tests, a script.
class NetworkUser {
 public:
  virtual ~NetworkUser() = default;
  virtual void tell(std::uint32_t process, io::Input input) = 0;
  virtual Memory& memory_of(std::uint32_t process) = 0;
  // The process that a dial to this port of a host reaches now; kNoProcess: none.
  virtual std::uint32_t listener(std::uint32_t host, std::uint16_t port, std::uint32_t dialler) = 0;
  // Whether a dial to there shows the process another key than it asks for.
  virtual bool rejects(std::uint32_t /*host*/, std::uint16_t /*port*/, std::uint32_t /*dialler*/) { return false; }
  virtual std::uint32_t host_of(std::uint32_t process) = 0;
  // Whether the driver of the process stands still: no bytes land in its memory.
  virtual bool stalled(std::uint32_t /*process*/) { return false; }
  // Whether the process falsifies this payload, a piece of its state or a part of one.
  virtual bool lies_about(std::uint32_t /*process*/, const BufferRef& /*payload*/) { return false; }
  // What this stream of process `from` proves to process `to`.
  virtual io::Identity proves(std::uint32_t /*from*/, StreamId /*stream*/, std::uint32_t /*to*/) { return {}; }
  // A bit of what one host sends to another has flipped.
  virtual void flipped(std::uint32_t /*from*/, std::uint32_t /*to*/) {}
  // A process learns of the end of a stream that the other has closed, at that time.
  virtual void let_go(std::uint32_t /*process*/, std::uint32_t /*other*/, Instant /*ended*/) {}
  // Core or the simulator broke the contract of core/io/stream.h.
  virtual void contract_broken(std::uint32_t process, std::string what) = 0;
};

// Of a dial that reaches whatever listens on another host than it means.
inline constexpr std::uint16_t kAnyPort = 0;

// Whether the machine of a dead process answers packets (kReset) or not (kSilence).
enum class Death : std::uint8_t { kReset, kSilence };

class Network {
 public:
  using End = std::uint32_t;  // one side of a connection: 2 * connection + (0: who dialled, 1: who accepted)

  // Hosts 0 .. hosts-1, kMaxHosts at most.
  Network(const NetworkOptions& options, std::uint32_t hosts, Dice dice, EventQueue& events, NetworkUser& user);

  void watch(WireWitness* witness) { witness_ = witness; }  // may be null

  // ---- effects of a process ----
  void dial(std::uint32_t process, const io::Dial& dial, Instant now);
  void read(std::uint32_t process, const io::Read& read, Instant now);
  void write(std::uint32_t process, const io::Write& write, Instant now);
  void revoke(std::uint32_t process, const io::Revoke& revoke, Instant now);
  void close(std::uint32_t process, const io::Close& close, Instant now);
  void place(std::uint32_t process, const io::CopyBytes& place);
  // The memory that is lent for reading has moved, with all bytes that have landed: a saved machine was loaded as
  // another.
  void moved(std::uint32_t process, const io::Read& read);

  // An event of the kinds kArrive .. kAccepted, and kFlow.
  void handle(const Event& event, Instant now);

  // ---- faults ----
  void cut(std::uint32_t from, std::uint32_t to);  // one way; counted
  void heal(std::uint32_t from, std::uint32_t to, Instant now);
  void drip(std::uint32_t from, std::uint32_t to, std::uint64_t bytes_per_s, Instant now);  // one way; 0: as before
  void slow(std::uint32_t a, std::uint32_t b, std::uint64_t factor, Instant now);           // both ways; 1: as before
  // Resets, or silences for ever, the streams that are open between two hosts.
  std::size_t reset(std::uint32_t a, std::uint32_t b, Instant now);
  std::size_t silence(std::uint32_t a, std::uint32_t b);
  // Processes there answer the coordinator's proposals `answers` times on each stream, and then no more. Streams that
  // are open must be known from their beginning on: watch_answers() comes first.
  void watch_answers() { watches_answers_ = true; }
  void mute(std::uint32_t host, bool on, std::uint64_t answers) { mutes_[host] = {on, answers}; }
  // Dials from other hosts to this one fail: they hang or are refused, or reach the host `instead` (0: none).
  struct Shut {
    int on = 0;  // so many more faults do this, or fewer
    bool refuses = false;
    std::uint32_t instead = 0;
  };
  void shut(std::uint32_t host, const Shut& change);
  // The processes on the host make one message in `one_in` a lie; 0: none. The caller calls watch_words() before the
  // first stream opens. From then on the network delays each message until all of its bytes are written.
  void watch_words() { watches_words_ = true; }
  void lie(std::uint32_t host, std::uint64_t one_in) {
    LOCKSTEP_ASSERT(watches_words_);
    lies_[host] = one_in;
  }
  [[nodiscard]] bool lies_on(std::uint32_t host) const { return lies_[host] != 0; }
  // A bit of each of the next `times` payloads or frames flips; in the whole run kMostFlips one way.
  void flip(std::uint32_t from, std::uint32_t to, std::uint64_t times) { ways_.between(from, to).to_flip = times; }
  static constexpr std::uint64_t kMostFlips = 2;  // one less than core takes for a fault of who sends
  [[nodiscard]] std::uint64_t flips() const { return flips_; }
  void died(std::uint32_t process, Death death, Instant now);
  // The machine answers again: streams without an owner are reset.
  void host_returned(std::uint32_t host, Instant now);

  // ---- for checkers ----
  // The stream that holds a part of this buffer as a loan; 0: none.
  [[nodiscard]] StreamId lent_to(std::uint32_t process, BufferId buffer) const;
  [[nodiscard]] std::size_t streams_of(std::uint32_t process) const;
  [[nodiscard]] std::uint32_t process_at(End end) const { return connections_[end / 2].sides[end % 2].process; }
  [[nodiscard]] bool is_cut(std::uint32_t from, std::uint32_t to) const { return ways_.is_cut(from, to); }

  struct Counts {
    std::uint64_t dials = 0;
    std::uint64_t resets = 0;
    std::uint64_t bytes = 0;
    std::uint64_t revoked_midway = 0;  // revocations that bytes raced with
  };
  [[nodiscard]] const Counts& counts() const { return counts_; }
  // Hosts and lines, in the flow fidelity; nullptr: there are none.
  [[nodiscard]] flow::Topology* topology() { return flows_ == nullptr ? nullptr : &flows_->topology(); }

  // 10.0.0.h, and back.
  static io::Address address_of(std::uint32_t host, std::uint16_t port);
  static std::uint32_t host_at(const io::Address& address);

 private:
  struct Span {                // token mode: a run of header bytes, or one payload
    std::uint64_t length = 0;  // pushed so far
    std::uint64_t read = 0;
    std::uint64_t total = 0;  // payload: its whole length
    bool payload = false;
    bool spoilt = false;
    bool is_lie = false;
    std::uint64_t flip = 0;  // the flipped bit of its token; 0: none
    BufferRef origin;
    Token token;
    BufferRef target;
  };
  enum class Mark : std::uint8_t { kBytes, kEnd, kReset };
  struct Flight {
    std::uint64_t bytes = 0;
    Mark mark = Mark::kBytes;
  };
  // One direction. Owned by the end that reads.
  struct Pipe {
    std::vector<std::byte> bytes;
    std::size_t head = 0;
    Fifo<Span> spans;
    Fifo<Flight> flights;
    std::uint64_t sent = 0;
    std::uint64_t arrived = 0;
    std::uint64_t taken = 0;         // by the reader
    std::uint64_t credited = 0;      // window given back to the sender
    std::uint64_t acknowledged = 0;  // counted in Port::written
    std::uint64_t arrivals = 0;      // for draws
    std::int64_t last_arrival = 0;
    std::uint32_t held = 0;  // flights that wait for a cut to heal
    // Flights that have arrived where bytes only drip, but for the front one, a piece of which passes at `drips_at`.
    std::uint32_t behind = 0;
    bool drips = false;
    Instant drips_at;
    std::uint64_t turn = 1;  // of the event that brings the next piece
    bool ended = false;      // the end has arrived
  };
  enum class State : std::uint8_t { kUnborn, kOpening, kOpen, kClosing, kGone };
  // Memory that core has lent to a stream for reading.
  struct ReadLoan {
    bool lent = false;
    bool landing = false;  // an event is on its way
    bool revoked = false;
    BufferRef place;
    std::span<std::byte> tail;
    std::size_t landed = 0;    // bytes that were read and not told yet
    std::uint64_t number = 0;  // of the loan on its stream
    Luck luck;
  };
  // Memory that core has lent to a stream for writing.
  struct WriteLoan {
    bool lent = false;
    bool taking = false;  // an event is on its way
    bool revoked = false;
    io::SliceList slices;
    std::size_t bytes = 0;     // of the slices
    std::size_t taken = 0;     // bytes that were sent and not told yet
    std::uint64_t number = 0;  // of the loan on its stream
    Luck luck;
  };
  struct Side {
    std::uint32_t process = kNoProcess;
    std::uint32_t host = 0;
    StreamId id;
    State state = State::kUnborn;
    ReadLoan read;
    WriteLoan write;
    bool end_seen = false;  // FIN or RST came and waits to be noticed
    io::CloseReason end_reason = io::CloseReason::kEnd;
    bool asked = false;          // core said Close
    Instant ended = kNever;      // when core closed the stream
    std::uint64_t draws = 0;     // made for this side
    Withholding answers;         // of a peer to the coordinator
    std::unique_ptr<Liar> liar;  // null: words are not watched
    Pipe in;
  };
  struct Connection {
    Side sides[2];
    std::uint16_t port = 0;
    std::uint32_t to_host = 0;
    bool black = false;  // silent, for ever or until the host returns
    bool over = false;   // reset: nothing flows any more
  };

  Side& side(End end) { return connections_[end / 2].sides[end % 2]; }
  Connection& connection(End end) { return connections_[end / 2]; }
  static End other(End end) { return end ^ 1U; }
  static constexpr End kNoEnd = 0xffffffff;
  End find(std::uint32_t process, StreamId id);
  bool give_name(std::uint32_t process, StreamId id, End end);
  Side* usable(std::uint32_t process, StreamId id, std::string_view what, End& end);

  void soon(End end, What what, std::uint64_t b, std::int64_t at_most, Purpose purpose, Instant now);
  bool chance(Side& side, std::uint64_t permille, Purpose purpose, End end);
  Luck luck(Side& side, Purpose purpose, End end);
  void send(End from, std::uint64_t bytes, Mark mark, Instant now);
  void fly(End from, std::int64_t left_ns);  // the front flight left its sender at this time
  void arrive(End to, std::uint64_t turn, Instant now);
  bool drip_on(End to, std::uint64_t rate, bool drips, Instant now);
  void give_flight(End to, Instant now);
  void see_end(End end, io::CloseReason reason, Instant now);
  void notice_end(End end, Instant now);
  void offer_read(End end, Instant now, bool bytes_came = false);
  void offer_write(End end, Instant now);
  void land(End end, std::uint64_t loan, Instant now);
  std::size_t land_once(End end, Instant now);
  std::size_t land_tokens(End end, Memory& memory, std::uint64_t limit, bool apart);
  bool land_early(End end, const std::byte* at, std::size_t bytes, const Span& span);
  static void land_in_place(const BufferRef& target, Span& span, Memory& memory);
  void place_tokens(std::uint32_t process, const io::CopyBytes& place, Memory& memory);
  void take(End end, std::uint64_t loan, Instant now);
  std::size_t take_once(End end, Instant now);
  void acknowledge(End sender, std::uint64_t bytes);
  // How many bytes go on the wire.
  std::size_t push_slice(End from, Memory& memory, const io::Slice& slice, std::size_t skip, std::size_t bytes);
  void push_payload(End from, Pipe& pipe, Memory& memory, const BufferRef& payload, std::size_t skip,
                    std::size_t bytes);
  void credit(End reader, Instant now);
  std::span<const std::byte> tell_lies(End from, std::span<const std::byte> bytes);
  void start_close(End end, io::CloseReason reason, Instant now);
  void finish_close(End end, io::CloseReason reason, Instant now);
  void syn(std::uint32_t index, Instant now);
  // False: the dial reaches nobody, now or for good.
  bool gets_in(std::uint32_t index, Instant now);
  void reset_connection(std::uint32_t index, Instant now);

  NetworkOptions options_;
  std::uint32_t hosts_;
  Dice dice_;
  EventQueue& events_;
  NetworkUser& user_;
  SteadyVector<Connection> connections_;
  // Token mode: bytes of a payload that came with its header, and lie in core's own memory until it says where they
  // belong.
  struct Early {
    const std::byte* at = nullptr;
    std::size_t bytes = 0;
    End end = 0;
    bool whole = false;
    bool spoilt = false;
    Token token{};
  };
  struct Port {
    std::vector<Early> early;
    std::array<std::vector<End>, 2> ends;  // by the stream's number: those that it dialled, those that it accepted
    std::vector<End> order;
    io::StreamNames accepting = io::StreamNames::for_accepting();
    io::Written written;
  };
  std::vector<Port> ports_;  // by process
  Ways ways_;
  std::uint64_t flips_ = 0;

  void send_as_flow(End from, std::uint64_t bytes, Instant now);
  void flow_on(Instant now);
  void flows_changed(Instant now);
  [[nodiscard]] bool has_room(End from, std::uint64_t window);
  std::unique_ptr<Flows> flows_;  // null: latency fidelity
  std::vector<bool> host_silent_;
  struct Mute {
    bool on = false;
    std::uint64_t answers = 0;
  };
  std::vector<Mute> mutes_;  // by host
  std::vector<Shut> shut_;   // by host
  bool watches_answers_ = false;
  std::vector<std::byte> let_through_;  // of one slice
  std::vector<std::uint64_t> lies_;     // by host: one message in so many; 0: none
  bool watches_words_ = false;
  std::vector<std::byte> told_;  // of one slice, true or not
  Counts counts_;
  WireWitness* witness_ = nullptr;

  std::optional<std::uint64_t> flip_now(End from, bool payload);
  // The way of the bytes that this end sends.
  Way& way_from(End from) {
    const Side& to = side(other(from));
    return ways_.between(side(from).host, to.state == State::kUnborn ? connection(from).to_host : to.host);
  }

  Port& port_of(std::uint32_t process) {
    if (process >= ports_.size()) ports_.resize(process + 1U);
    return ports_[process];
  }
  [[nodiscard]] bool silent(std::uint32_t host) const { return host < host_silent_.size() && host_silent_[host]; }
};

std::string_view name_of(io::CloseReason reason);
// "stream 3"
std::string stream_text(StreamId id);

}  // namespace lockstep::sim
