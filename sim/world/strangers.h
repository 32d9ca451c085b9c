// Strangers on one host: connections to the port of another host, without the key of its run. A stranger stays silent,
// sends a byte at a time, sends noise, names peers that it knows, or joins the run only to hang up; it returns after it
// was disconnected. Strangers run like a machine of a World: io inputs come in, io effects go out. Reports a silent
// stranger that keeps its place too long (promise S9).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/time.h"
#include "core/io/stream.h"
#include "core/wire/message.h"
#include "sim/checkers/complaint.h"
#include "sim/engine/dice.h"

namespace lockstep::sim {

// The world, as strangers use it.
class StrangersHost {
 public:
  virtual ~StrangersHost() = default;
  // Where a process listens on the host that they attack; nothing: none does.
  virtual std::optional<io::Address> stranger_target(std::uint32_t process) = 0;
  virtual void stranger_asks(std::uint32_t process, const io::Effect& effect) = 0;
  virtual void stranger_wakes(std::uint32_t process, Duration after, std::uint64_t what) = 0;
};

class Strangers {
 public:
  struct Settings {
    std::uint32_t process = 0;
    std::uint32_t count = 1;
    bool coordinator = false;  // whom they attack
    bool auto_admit = false;
    std::vector<PeerId> known;  // a status lists the members to anybody
    Duration patience;          // a place is not kept longer by one that says nothing
    Duration pause;             // until one that was shown out comes again, at most
  };
  Strangers(Settings settings, Dice dice, StrangersHost& host);

  void begin();
  void on_input(const io::Input& input, Instant now);
  void on_wake(std::uint64_t what);
  // Closes every stream; no stranger returns.
  void end();
  // Something else than strangers may keep it from being shown out.
  void forgive(Instant now);
  [[nodiscard]] Complaint overstayed(Instant now) const;

 private:
  enum class Manner : std::uint8_t { kSilent, kDrips, kNoise, kNames, kJoins };
  static constexpr std::uint64_t kManners = 5;
  static constexpr std::uint64_t kQuietManners = 2;  // the first of them
  struct Slot {
    Manner manner = Manner::kSilent;
    StreamId stream;  // 0: none
    bool open = false;
    bool writing = false;
    bool closing = false;
    Instant opened_at;
    std::uint64_t visits = 0;
    std::vector<std::byte> words;
    std::size_t said = 0;
    std::array<std::byte, 512> into{};
  };

  void come(std::size_t index);
  void write(Slot& slot);
  void read(Slot& slot);
  void close(Slot& slot);
  [[nodiscard]] std::vector<std::byte> words_of(const Slot& slot, std::size_t index) const;
  [[nodiscard]] Duration within(Duration most, std::size_t index, std::uint64_t n) const;
  Slot* find(StreamId stream);

  const Settings settings_;
  Dice dice_;
  StrangersHost& host_;
  io::StreamNames names_ = io::StreamNames::for_dialling();
  std::vector<Slot> slots_;
  bool over_ = false;
};

}  // namespace lockstep::sim
