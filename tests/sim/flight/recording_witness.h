// A flight recorder beside every machine of a simulated run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "core/flight/recorder.h"
#include "sim/world/witness.h"

namespace lockstep::sim {

class RecordingWitness final : public Witness {
 public:
  explicit RecordingWitness(std::size_t bytes) : bytes_(bytes) {}

  void born(std::uint32_t process, const peer::PeerOptions& options, Instant now) override {
    peers_[process] = std::make_unique<PeerRecorder>(options, now, bytes_);
  }
  void born(std::uint32_t process, const coordinator::CoordinatorOptions& options, Instant now) override {
    coordinators_[process] = std::make_unique<CoordinatorRecorder>(options, now, bytes_);
  }
  void happens(const Event&, Instant now) override { now_ = now; }
  void steps(std::uint32_t process, const peer::Input& input) override { peers_.at(process)->before(input, now_); }
  void steps(std::uint32_t process, const coordinator::Input& input) override {
    coordinators_.at(process)->before(input, now_);
  }
  void answers(std::uint32_t process, const peer::Effects& effects, const peer::Peer& machine) override {
    peers_.at(process)->after(effects, machine);
  }
  void answers(std::uint32_t process, const coordinator::Effects& effects,
               const coordinator::Coordinator& machine) override {
    coordinators_.at(process)->after(effects, machine);
  }

  [[nodiscard]] std::vector<flight::Recording> recordings() const {
    std::vector<flight::Recording> all;
    for (const auto& [process, recorder] : coordinators_) all.push_back(recorder->recording());
    for (const auto& [process, recorder] : peers_) all.push_back(recorder->recording());
    return all;
  }

 private:
  using PeerRecorder = flight::Recorder<peer::Peer>;
  using CoordinatorRecorder = flight::Recorder<coordinator::Coordinator>;

  std::size_t bytes_;
  Instant now_;
  std::map<std::uint32_t, std::unique_ptr<PeerRecorder>> peers_;
  std::map<std::uint32_t, std::unique_ptr<CoordinatorRecorder>> coordinators_;
};

}  // namespace lockstep::sim
