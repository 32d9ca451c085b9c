// Observes a World, and records the cells of the coverage matrices that the run hits. Only certain hits count: the
// state of a machine is known when a step begins, so of several messages in one step only the first counts. A segment
// counts when it is whole. Bytes on a stream that is to be closed do not count, because the machine does not read them.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "core/base/ids.h"
#include "core/peer/peer.h"
#include "sim/cover/cells.h"
#include "sim/explain/wire_tap.h"
#include "sim/world/witness.h"

namespace lockstep::sim::cover {

class Surveyor final : public Witness {
 public:
  explicit Surveyor(Hits& hits) : hits_(hits) {}

  // Witness
  void started(std::uint32_t process, std::uint32_t host, PeerId peer) override;
  void stopped(std::uint32_t process, Death death) override;
  void strangers_come(std::uint32_t process, std::uint32_t host, PeerId) override {
    if (processes_.size() <= process) processes_.resize(process + 1U);
    processes_[process].host = host;
  }
  void steps(std::uint32_t process, const peer::Input& input) override;
  void steps(std::uint32_t process, const coordinator::Input& input) override;
  void stepped(std::uint32_t process, const peer::Peer& peer, const Program& program) override;
  void stepped(std::uint32_t process, const coordinator::Coordinator& coordinator) override;
  void opens(std::uint32_t end, std::uint32_t process, StreamId stream) override;
  void sends(std::uint32_t end, std::span<const std::byte> bytes, std::size_t size) override;
  void fault_begins(std::uint64_t entry, const Entry& fault) override;

 private:
  struct Process {
    std::uint32_t host = 0;
    bool alive = false;
    const peer::Peer* peer = nullptr;  // once it has taken its first step
    std::vector<std::uint32_t> ends;   // by stream
  };
  // A message on its way, and how many bytes have come when it is whole.
  struct Coming {
    std::uint64_t end = 0;
    std::size_t kind = 0;
    std::optional<RoundKey> round;
  };
  struct Side {
    WireTap tap;  // on what comes in here
    std::uint64_t read = 0;
    std::deque<Coming> coming;
  };

  // The first message that is whole with the next `bytes` of this stream.
  std::optional<Coming> arrived(std::uint32_t process, StreamId stream, std::size_t bytes);
  template <typename Machine, typename Input>
  std::optional<Coming> message_in(std::uint32_t process, const Machine* machine, const Input& input);
  void fault_at(std::uint32_t host, std::size_t fault);
  void hit_phases(const peer::Snapshot& posture, Matrix matrix, std::size_t first_row, std::size_t column);

  Hits& hits_;
  std::vector<Process> processes_;
  std::vector<std::uint32_t> on_host_;  // its newest process
  std::deque<Side> sides_;
  const coordinator::Coordinator* coordinator_ = nullptr;
  std::vector<WireTap::Heard> heard_;
};

}  // namespace lockstep::sim::cover
