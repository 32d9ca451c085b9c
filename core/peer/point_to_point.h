// Point-to-point transfers: tensors that one member sends to another (rules 44 to 48 of docs/protocol.md). The
// coordinator takes no part, and neither cohorts nor groups matter. Two files carry it out: point_to_point.cc (calls,
// and how they end) and point_to_point_traffic.cc (what the other members say and send).
//
// The receiver matches: the n-th send of a tag to this peer meets the n-th receive that takes it. A send is offered
// with a number, in the order of calls; a small one goes at once, a large one when its receive is there. Knows neither
// rounds nor proposals: a loss of a third member does not touch a transfer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/buffers/buffer_ref.h"
#include "core/peer/context.h"
#include "core/peer/early_slots.h"
#include "core/peer/input.h"
#include "core/peer/jobs.h"
#include "core/peer/mesh_owners.h"
#include "core/peer/numbered_messages.h"
#include "core/peer/transfer_segments.h"
#include "core/peer/views.h"
#include "core/wire/limits.h"
#include "core/wire/message.h"

namespace lockstep::peer {

class PointToPoint final : public TransferOwner {
 public:
  PointToPoint(Context& context, const Views& views) : context_(context), views_(views) {}

  // ---- calls ----

  void send(Send in);
  void receive(Receive in);
  // False: it is none of these calls.
  [[nodiscard]] bool stop(CallId call, const std::string& why);
  void on_timer();
  void on_job_done(const Jobs::Owner& owner, const JobDone& in);

  // ---- changes of the membership ----

  // A view is installed: transfers with members that are gone end (rule 48).
  void on_view(const wire::View& before, const wire::Propose& change);
  // Leave was called: nothing more is sent or received; what was accepted is delivered first (rule 48).
  void begin_leave();
  // Whether every accepted send has been delivered, or has failed.
  [[nodiscard]] bool may_leave() const;
  // The run is over for this peer (rule 37).
  void end(Status status, const std::string& text);

  // ---- members: TransferOwner ----

  void on_message(PeerId from, StripeIndex stripe, StreamId stream, const wire::Message& message) override;
  void on_stripe_up(PeerId peer, StripeIndex stripe, StreamId stream) override;
  void on_stream_gone(PeerId peer, StreamId stream) override;
  [[nodiscard]] ring::Operation::SegmentPlace on_segment_began(PeerId from, StreamId stream,
                                                               const wire::Segment& segment) override;
  void on_segment_ended(PeerId from, StreamId stream, const wire::SegmentEnded& segment) override;
  [[nodiscard]] bool has_segments() const override { return sendable_ > 0; }
  [[nodiscard]] bool has_segments_for(PeerId to) const override;
  [[nodiscard]] bool next_segment(PeerId to, StripeIndex stripe, StreamId stream, wire::LinkWriter& writer) override;
  [[nodiscard]] bool next_small_segment(PeerId to, StripeIndex stripe, StreamId stream,
                                        wire::LinkWriter& writer) override;

  // ---- links ----

  void on_caller(PeerId from);
  // True, once: the links that are wanted have changed in this step.
  [[nodiscard]] bool take_relink() { return std::exchange(relinks_, false); }
  void add_links(Views::Links& links) const;

  // ---- after every step ----

  void drive() {
    if (!long_waits_.told.empty() && calls() == 0) tell_long_waits();
    if (repeating_ > 0 || !ending_.empty() || !closing_.empty() || leaving_) drive_all();
  }
  [[nodiscard]] Instant deadline() const {
    return std::min(deadlines_.empty() ? kNever : deadlines_.begin()->first, empty() ? kNever : long_waits_.look_at);
  }
  [[nodiscard]] bool empty() const { return sends_.empty() && receives_.empty() && closing_.empty(); }
  [[nodiscard]] std::size_t calls() const { return sends_.size() + receives_.size(); }
  // The oldest call that waits for its partner, in words; empty: there is none.
  [[nodiscard]] std::string oldest() const;
  // Sends of others that no receive has taken.
  [[nodiscard]] std::size_t remembered() const { return arrivals_.size(); }

  template <typename Archive>
  void archive(Archive& a);  // defined in archive.cc

 private:
  using Order = std::uint64_t;  // of a call; of an arrival

  struct Sending {
    CallId call;
    Transfer what;
    Instant launched;
    Instant deadline = kNever;
    std::uint64_t id = 0;  // 0: not offered
    bool eager = false;    // offered as such
    bool asked = false;    // the receiver has memory for it
    StreamId bound;        // eager and not asked: the stream of its offer; 0: gone
    bool listed = false;   // in Pair::small or Pair::large
    OutgoingSegments segments;
    std::optional<JobPrefix> jobs;
    std::optional<Error> end;  // kOk: delivered; the memory comes back, then the call completes

    [[nodiscard]] bool waits() const { return !end && !asked; }  // for its receive
    [[nodiscard]] bool is_small() const { return segments.tensor().segments() <= 1; }
    template <typename Archive>
    void archive(Archive& a) {
      a.all(call, what, launched, deadline, id, eager, asked, bound, listed, segments, jobs, end);
    }
  };
  struct Receiving {
    CallId call;
    Transfer what;
    Instant launched;
    Instant deadline = kNever;
    std::optional<Order> arrival;
    std::optional<Error> end;

    [[nodiscard]] bool waits() const { return !end && !arrival; }  // for a send
    template <typename Archive>
    void archive(Archive& a) {
      a.all(call, what, launched, deadline, arrival, end);
    }
  };
  // A send of another member.
  struct Arrival {
    PeerId from;
    wire::SendOffer offer;
    IncomingSegments segments;
    std::optional<Order> receive;
    std::optional<BufferRef> slot;  // of the early buffer
    std::optional<JobPrefix> jobs;
    bool asked = false;     // its segments were asked for
    bool held = false;      // reported as such: the slot holds it
    bool reported = false;  // as received, refused or freed
    template <typename Archive>
    void archive(Archive& a) {
      a.all(from, offer, segments, receive, slot, jobs, asked, held, reported);
    }
  };
  // An offer of this peer that is not answered.
  struct Open {
    Order order = 0;  // 0: the call has ended
    bool eager = false;
    template <typename Archive>
    void archive(Archive& a) {
      a.all(order, eager);
    }
  };
  // The messages and transfers between this peer and one other.
  struct Pair {
    NumberedMessages messages;
    std::set<Order> queued;              // sends that are not offered yet
    std::uint64_t offered = 0;           // the last id
    std::map<std::uint64_t, Open> open;  // offered and not answered, by id
    std::map<std::uint64_t, bool> held;  // in the other side's early buffer; whether as an eager send
    std::uint32_t eager = 0;             // eager sends that occupy the other side
    std::set<Order> small;               // sends with a segment that may go now
    std::set<Order> large;
    std::map<std::uint64_t, Order> arrivals;  // by id
    std::uint64_t last = 0;                   // the last id that the other side has offered
    std::uint32_t open_here = 0;              // offers that were not answered, or are held
    std::uint32_t eager_here = 0;             // of them, the eager ones
    bool repeats = false;                     // its messages are said again, on another stream
    std::uint64_t asked = 0;                  // what was said when the other side was last asked what it has heard
    template <typename Archive>
    void archive(Archive& a) {
      a.all(messages, queued, offered, open, held, eager, small, large, arrivals, last, open_here, eager_here, repeats,
            asked);
    }
  };
  // A member that is gone, for texts.
  struct Gone {
    std::string name;
    bool left = false;
    template <typename Archive>
    void archive(Archive& a) {
      a.all(name, left);
    }
  };

  // Transfers that wait long for their partner (rule 54).
  struct LongWaits {
    Instant look_at = kNever;
    std::set<Order> told;  // those that the coordinator knows
    template <typename Archive>
    void archive(Archive& a) {
      a.all(look_at, told);
    }
  };

  // ---- calls ----

  [[nodiscard]] std::optional<Error> validate(const Transfer& what, std::string_view verb) const;
  [[nodiscard]] std::optional<Error> validate_partner(const Transfer& what, std::string_view verb) const;
  [[nodiscard]] static std::string words_of(DataType type, std::uint64_t count);  // "f32 [3]"
  [[nodiscard]] std::string words_of(const Transfer& what, std::string_view verb) const;
  [[nodiscard]] std::string waits_for(const Transfer& what, std::string_view verb) const;
  [[nodiscard]] std::string name_of(PeerId peer) const;
  Pair& pair_with(PeerId peer);
  void offer_queued(PeerId to, Pair& pair);
  void list(Order order, Sending& send);
  void prepare(Sending& send);
  void look_after(Instant launched);
  void tell_long_waits();
  void note_wait(const Transfer& what, std::string_view verb, Duration age) const;
  void end_call(Order order, Status status, const std::string& text, bool tell);
  void end_send(Order order, Sending& send, Status status, std::string text, bool tell);
  void end_receive(Order order, Receiving& receive, Status status, std::string text, bool tell);
  [[nodiscard]] bool complete_send(Order order);
  void complete_receive(Order order, Status status, std::string text);

  // ---- matching ----

  void find_arrival(Order order);
  [[nodiscard]] std::optional<Order> find_receive(const Arrival& arrival) const;
  void match(Order receive, Order arrival);
  void go_on(Order order, Arrival& arrival);
  void ready(const Arrival& arrival, std::optional<StreamId> stream);
  void ask_again(Arrival& arrival);
  void report(Arrival& arrival, wire::SendState state, Status status = Status::kOk, std::string text = {});
  void untake(const Receiving& receive, Order order);
  void close(Order order, Arrival& arrival);
  [[nodiscard]] bool drop_closed(Order order);
  void drop(Order order);

  // ---- messages; false: a violation ----

  [[nodiscard]] bool on_offer(PeerId from, StreamId stream, const wire::SendOffer& offer);
  [[nodiscard]] bool on_report(PeerId from, StreamId stream, const wire::SendReport& report);
  [[nodiscard]] bool on_answer(PeerId from, Pair& pair, const wire::SendReport& report);
  void on_withdrawn(Pair& pair, const wire::SendReport& report);
  [[nodiscard]] bool on_ready(PeerId from, StripeIndex stripe, StreamId stream, const wire::SendReady& ready);
  [[nodiscard]] bool on_heard(PeerId from, StreamId stream, const wire::SendsHeard& heard);
  [[nodiscard]] static bool is_sound(const Pair& pair, const wire::SendOffer& offer);
  void tell_owed(Pair& pair, StreamId stream);
  void say(PeerId to, Pair& pair, wire::SendReport report);
  void repeat(PeerId to, Pair& pair);
  void drive_all();
  void give(Order order, Sending& send, StripeIndex stripe, StreamId stream, wire::LinkWriter& writer);
  void on_arrival_job_done(Order order, const JobDone& in);

  // Other peers that this peer has transfers or links with; some may not be members yet.
  static constexpr std::size_t kMostPairs = std::size_t{2} * kMaxMembers;

  Context& context_;
  const Views& views_;
  std::map<PeerId, Pair> pairs_;
  std::map<Order, Sending> sends_;
  std::map<Order, Receiving> receives_;
  std::map<Order, Arrival> arrivals_;
  std::map<CallId, Order> calls_;
  std::map<Tag, std::set<Order>> waiting_;  // receives that have no send
  std::map<Tag, std::set<Order>> untaken_;  // arrivals that have no receive
  std::set<std::pair<Instant, Order>> deadlines_;
  std::set<Order> ending_;   // sends whose memory comes back
  std::set<Order> closing_;  // arrivals whose memory comes back
  std::map<PeerId, Gone> gone_;
  EarlySlots slots_;
  Order begun_ = 0;              // the last order that was given
  std::uint64_t sendable_ = 0;   // sends with a segment that may go now
  std::uint64_t repeating_ = 0;  // pairs that repeat their messages
  LongWaits long_waits_;
  bool leaving_ = false;
  bool relinks_ = false;  // in this step
};

}  // namespace lockstep::peer
