// Observes a World, and writes its history. There are three kinds of causes: a queued event is caused by the event that
// queued it; a message by the moment that put it on the wire; and within a process, a moment by the last moment about
// the same subject.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "sim/explain/history.h"
#include "sim/explain/names.h"
#include "sim/explain/subject.h"
#include "sim/explain/wire_tap.h"
#include "sim/world/witness.h"

namespace lockstep::sim {

class Historian final : public Witness {
 public:
  // Thrown after the given number of events.
  struct SeenEnough {};

  // `see`: the number of events to record, if the next event would kill the process (an assertion of core). 0: all.
  explicit Historian(const Plan& plan, std::uint64_t see = 0);

  // Ends the history: the run is over, or was given up with `crash`. Call it once.
  History finish(std::optional<Failure> crash = {});

  // Witness
  void queued(const Event& event) override;
  void happens(const Event& event, Instant now) override;
  void held_back(const Event& event) override;
  void started(std::uint32_t index, std::uint32_t host, PeerId peer) override;
  void stopped(std::uint32_t index, Death death) override;
  void strangers_come(std::uint32_t process, std::uint32_t host, PeerId peer) override { started(process, host, peer); }
  void steps(std::uint32_t process, const peer::Input& input) override;
  void steps(std::uint32_t process, const coordinator::Input& input) override;
  void asks(std::uint32_t process, const peer::Effect& effect) override;
  void asks(std::uint32_t process, const coordinator::Effect& effect) override;
  void stepped(std::uint32_t process, const peer::Peer& peer, const Program& program) override;
  void stepped(std::uint32_t process, const coordinator::Coordinator& coordinator) override;
  void called(const Call& call) override;
  void launched(const Call& call) override;
  void opens(std::uint32_t end, std::uint32_t process, StreamId stream) override;
  void sends(std::uint32_t end, std::span<const std::byte> bytes, std::size_t size) override;
  void fault_begins(std::uint64_t entry, const Entry& fault) override;
  void fault_ends(std::uint64_t entry, const Entry& fault) override;
  void heals() override;
  void failed(const Failure& failure, const Call* about) override;

 private:
  // The cause of a queued event; two causes when a stopped process held it back.
  struct Origin {
    MomentId moment = kNoMoment;
    MomentId woken_by = kNoMoment;
  };
  struct Pipe {  // into one end of a connection
    WireTap tap;
    std::uint64_t read = 0;
    struct Under {
      std::uint64_t end = 0;
      std::size_t message = 0;
      Subjects subjects;
    };
    std::deque<Under> way;
  };
  struct Side {
    std::uint32_t process = kNoProcess;
    StreamId stream;
    MomentId written = kNoMoment;  // the last moment that asked for a write
    Pipe in;
  };
  struct Work {
    MomentId begun = kNoMoment;
    std::string text;
  };
  struct Process {
    std::map<std::uint32_t, MomentId> last;        // by subject
    std::map<std::uint64_t, std::size_t> bars;     // by call
    std::unordered_map<std::uint64_t, Work> jobs;  // by token
    MomentId latest = kNoMoment;
    MomentId view = kNoMoment;
    std::uint32_t state = 0;
    std::size_t members = 0;
    std::uint64_t number = 0;
    std::uint64_t cohort = 0;
    std::uint32_t pending = 0;
  };
  // The step that a machine takes now. It becomes a moment with the first thing that is to be told of it.
  struct Step {
    std::uint32_t process = kNoProcess;
    Moment moment;
    MomentId id = kNoMoment;
    const char* in_short = "";  // the input in short, if no message describes it
    bool only_writes = false;   // bytes went out; what it writes next was said in earlier moments
  };

  MomentId add(Moment moment);
  MomentId tell();  // the step becomes a moment
  void begin(std::uint32_t process, Spark spark, const char* in_short = "");
  void because(MomentId moment, Because why);
  void because_queued(Because why);
  void about(const std::string& subject);
  void about(const Subjects& subjects);
  void arrived(std::uint32_t process, StreamId stream, std::size_t bytes);
  void worked(std::uint32_t process, const peer::JobDone& done);
  void came(const io::Input& input, std::uint32_t process);
  void asked(const io::Effect& effect, std::uint32_t process);
  void completed(std::uint32_t process, const peer::Complete& complete);
  void installed(std::uint32_t process, const wire::View& view);
  void noted(std::uint32_t process, const trace::Event& event);
  void made(std::uint32_t process, CallId call);
  void blame_faults(std::uint32_t host, std::uint32_t other);
  void end_step(State state);
  std::uint32_t index_of(const std::string& subject);
  std::uint32_t state_index(State state);
  Bar& bar_of(const Call& call);
  [[nodiscard]] std::string who(PeerId peer) const { return names_.name_of(peer); }
  [[nodiscard]] std::string peers_text(const std::vector<std::string>& peers) const;
  [[nodiscard]] MomentId sender_of(const Side& side, const Subjects& subjects);

  std::uint64_t see_;
  History history_;
  Names names_;
  std::map<PeerId, std::uint32_t> lane_of_;
  std::vector<Process> processes_;
  std::deque<Side> sides_;
  std::map<std::tuple<std::uint32_t, StreamId>, std::uint32_t> end_of_;
  std::unordered_map<std::uint64_t, Origin> origins_;  // origin of each queued event, by its tie
  std::map<std::tuple<std::uint32_t, What, std::uint64_t, std::uint64_t>, MomentId> held_;
  std::map<std::string, std::uint32_t> subject_index_;
  std::map<State, std::uint32_t> state_index_;
  std::map<std::uint64_t, std::size_t> fault_of_entry_;  // the latest span
  std::map<std::uint32_t, MomentId> misused_;            // by host: the fault that spoils its next collective
  std::uint64_t events_ = 0;
  Instant now_;
  Origin origin_;  // origin of the current event
  MomentId nemesis_ = kNoMoment;
  std::optional<Step> step_;
  std::vector<WireTap::Heard> heard_;
};

}  // namespace lockstep::sim
