// Any bytes as a flight recording: with a head that fits (no fuzzer guesses a checksum) they are decoded, entry by
// entry, and their state is loaded into a machine. Nothing of it is played: a machine trusts its own driver.
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "core/base/assert.h"
#include "core/flight/recorder.h"
#include "core/flight/recording.h"
#include "core/kernels/checksum.h"
#include "core/peer/peer.h"
#include "core/wire/message.h"
#include "fuzz/door.h"

namespace flight = lockstep::flight;
using lockstep::Status;

namespace {

template <typename U>
void append(std::vector<std::byte>& out, U value) {
  for (std::size_t i = 0; i < sizeof(U); ++i) out.push_back(static_cast<std::byte>(value >> (8 * i)));
}

template <typename Machine>
void look_at(const flight::Recording& recording) {
  std::span<const std::byte> rest(recording.records);
  while (!rest.empty()) {
    const auto before = rest.size();
    if (!flight::take_record<typename flight::Kind<Machine>::Input>(rest)) break;
    LOCKSTEP_ASSERT(rest.size() < before);
  }
  Machine machine(std::get<typename flight::Kind<Machine>::MachineOptions>(recording.options), recording.born);
  typename flight::Kind<Machine>::Effects lent;
  if (!machine.load(recording.state, lent)) return;
  std::vector<std::byte> again;
  machine.save(again);
  LOCKSTEP_ASSERT(!again.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto raw = flight::decode(bytes); !raw) {
    LOCKSTEP_ASSERT(raw.error().status == Status::kInvalidArgument && !raw.error().text.empty());
  }
  std::vector<std::byte> file;
  append(file, flight::kMagic);
  append(file, flight::kFormat);
  append(file, lockstep::wire::kVersion);
  append(file, static_cast<std::uint64_t>(size));
  append(file, lockstep::checksum(bytes));
  file.insert(file.end(), bytes.begin(), bytes.end());
  const auto recording = flight::decode(file);
  if (!recording) return 0;
  if (!std::visit([](const auto& options) { return validate_options(options); }, recording->options).empty()) return 0;
  const auto* peer = std::get_if<lockstep::peer::PeerOptions>(&recording->options);
  if (peer != nullptr && peer->id.is_nobody()) return 0;
  if (recording->of_peer()) {
    look_at<lockstep::peer::Peer>(*recording);
  } else {
    look_at<lockstep::coordinator::Coordinator>(*recording);
  }
  return 0;
}
