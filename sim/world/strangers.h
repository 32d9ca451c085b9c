// Strangers on one host: connections to the port of another host. A stranger stays silent, sends a byte at a time,
// sends noise, names peers that it knows, or joins the run only to hang up; it returns after it was disconnected. Some
// know more than they should: a token without its secret, a token that is not valid any more, or the key of the run.
// These are impostors, and their streams prove a key that is no member's. Strangers that attack a peer also answer some
// of the dials to its address. Strangers run like a machine of a World: io inputs come in, io effects go out. Reports a
// silent stranger that keeps its place too long (promise S9), and what strangers are told (A1 to A3).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
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
  // Returns the process that listens on the attacked host. Empty if no process listens there.
  struct Target {
    io::Address address;
    PeerId peer;  // nobody: the coordinator
  };
  virtual std::optional<Target> stranger_target(std::uint32_t process) = 0;
  // Somebody says this to a stranger. `answers`: on a stream that was dialled to the host that they attack.
  virtual void stranger_hears(std::uint32_t process, const wire::Message& message, bool answers) = 0;
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
    std::vector<PeerId> known;  // ids of members
    io::KeyDigest key;          // that their streams prove: no member's
    LinkKey run;                // the key of the run, which impostors know
    io::TokenId valid;          // a token that some of them may use
    io::TokenId gone;           // a token that is not one of the run any more
    Duration patience;          // a place is not kept longer by one that says nothing
    Duration pause;             // until one that was shown out comes again, at most
    // One comes once, with this identity, and asks the coordinator to evict a peer.
    struct Asks {
      io::Identity identity;
      PeerId peer;
      bool may = false;  // it is an administrator
    };
    std::optional<Asks> asks;
  };
  Strangers(Settings settings, Dice dice, StrangersHost& host);

  void begin();
  void on_input(const io::Input& input, Instant now);
  void on_wake(std::uint64_t what);
  [[nodiscard]] const std::optional<Settings::Asks>& asks() const { return settings_.asks; }
  // What a stream proves.
  [[nodiscard]] io::Identity identity_of(StreamId stream) const;
  // Whether the next dial to the host that they attack reaches them.
  [[nodiscard]] bool takes_dial();
  // Closes every stream; no stranger returns.
  void end();
  // Something else than strangers may keep it from being shown out.
  void forgive(Instant now);
  [[nodiscard]] Complaint overstayed(Instant now) const;

 private:
  enum class Manner : std::uint8_t { kSilent, kDrips, kNoise, kNames, kJoins, kAsks };
  static constexpr std::uint64_t kManners = 5;       // that are drawn
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
    std::vector<std::byte> heard;  // the beginning of what was said to it
  };
  static constexpr std::size_t kMostHeard = 4096;  // bytes

  void come(std::size_t index);
  void write(Slot& slot);
  void read(Slot& slot);
  void close(Slot& slot);
  void hear(Slot& slot, std::size_t bytes, bool answers);
  void on_answered(const io::Input& input);
  [[nodiscard]] bool may_join(std::size_t index) const;
  [[nodiscard]] std::vector<std::byte> words_of(const Slot& slot, std::size_t index, PeerId target) const;
  [[nodiscard]] wire::Message impostors_greeting(const Slot& slot, std::size_t index, PeerId target) const;
  [[nodiscard]] Duration within(Duration most, std::size_t index, std::uint64_t n) const;
  Slot* find(StreamId stream);

  const Settings settings_;
  Dice dice_;
  StrangersHost& host_;
  io::StreamNames names_ = io::StreamNames::for_dialling();
  std::vector<Slot> slots_;
  std::map<StreamId, Slot> answered_;  // streams that were dialled to the host that they attack
  std::uint64_t dials_ = 0;            // to that host
  bool over_ = false;
};

}  // namespace lockstep::sim
