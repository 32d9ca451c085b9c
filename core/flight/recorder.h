// Observes a machine of core while a driver runs it, and remembers the most recent inputs in a ring of memory with two
// halves. When one half is full, the other half is cleared and begins with the whole state of the machine, so the
// remembered inputs can always be replayed.
//
// Pure: the driver passes inputs and effects to the recorder, and writes the recording where it likes. A steady state
// allocates nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/assert.h"
#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/flight/recording.h"
#include "core/io/stream.h"
#include "core/peer/effect.h"
#include "core/peer/peer.h"

namespace lockstep::flight {

// Common parts of the recorders of both machines.
class Tape {
 public:
  // Keeps at most about `bytes` of inputs, plus two states of the machine (bounded by promise S9).
  Tape(Instant born, std::size_t bytes);

 protected:
  struct Half {
    std::uint64_t before = 0;  // inputs before this half, as in Recording
    Instant last;
    std::uint64_t hash = 0;
    std::vector<std::byte> state;
    std::uint64_t inputs = 0;
    std::vector<std::byte> records;
  };

  void begin(std::size_t alternative, Instant now);
  void landed(StreamId stream, std::size_t bytes);  // after begin()
  void lend(const io::Read& read);
  void forget(StreamId stream);
  void placed(std::span<const std::byte> bytes);
  // Ends the step. `effects`: the number of effects; their fields are in answer_.
  void end(std::size_t effects);
  [[nodiscard]] bool full() const { return halves_[current_].records.size() >= half_bytes_; }
  Half& turn_over();
  // Without the options.
  [[nodiscard]] Recording recording() const;

  std::vector<std::byte> input_;   // fields of this step's input
  std::vector<std::byte> answer_;  // of this step: room for a hash, and the fields of the effects

 private:
  // The memory that a stream lends for reading.
  struct Loan {
    std::uint64_t place = 0;
    std::span<const std::byte> tail;
  };

  // The last bytes that landed on a stream that has lent nothing since. Some may be payload whose place is not known
  // yet.
  struct Landing {
    std::span<const std::byte> memory;  // empty: the memory has moved
    std::size_t at = 0;                 // offset in the records of this half
    std::size_t end = 0;
    std::size_t kept = 0;  // number of landed bytes, at the end of the memory
    std::vector<Hole> holes;
  };

  void append_head(std::vector<std::byte>& out, std::uint8_t flags) const;
  void append_landed(std::vector<std::byte>& out) const;
  void remember_landing(std::size_t at);
  void punch(Landing& landing, const Hole& hole);

  std::size_t half_bytes_;
  Instant born_;
  Instant last_;
  std::uint64_t hash_ = 0;
  std::uint64_t inputs_ = 0;  // since the machine was constructed
  std::array<Half, 2> halves_;
  std::size_t current_ = 0;
  std::map<StreamId, Loan> loans_;
  std::map<StreamId, Landing> landings_;

  // Fields of the current step.
  bool stepping_ = false;
  std::uint8_t alternative_ = 0;
  std::uint64_t since_ = 0;
  StreamId stream_;                  // the stream that bytes landed on, unless it lends again
  std::span<const std::byte> tail_;  // where they landed
  std::vector<std::byte> copy_;      // a copy of them
  std::vector<Hole> holes_;
  std::vector<std::byte> punched_;
};

// The recorder of one machine.
template <typename Machine>
struct Kind;
template <>
struct Kind<peer::Peer> {
  using Input = peer::Input;
  using Effects = peer::Effects;
  using MachineOptions = peer::PeerOptions;
};
template <>
struct Kind<coordinator::Coordinator> {
  using Input = coordinator::Input;
  using Effects = coordinator::Effects;
  using MachineOptions = coordinator::CoordinatorOptions;
};

template <typename Machine>
class Recorder : private Tape {
 public:
  using Input = typename Kind<Machine>::Input;
  using Effects = typename Kind<Machine>::Effects;
  using MachineOptions = typename Kind<Machine>::MachineOptions;

  Recorder(MachineOptions options, Instant born, std::size_t bytes) : Tape(born, bytes), options_(std::move(options)) {}

  // Call it before the machine processes this input.
  void before(const Input& input, Instant now);
  // Call it with the effects of the step, before any of them is carried out.
  void after(const Effects& effects, const Machine& machine);

  // All remembered inputs. In the middle of a step, the last input is the one that the machine has not returned from.
  [[nodiscard]] Recording recording() const {
    Recording all = Tape::recording();
    all.options = options_;
    return all;
  }

 private:
  MachineOptions options_;
};

extern template class Recorder<peer::Peer>;
extern template class Recorder<coordinator::Coordinator>;

}  // namespace lockstep::flight
