// usage: write_corpus folder     Writes the seeds of the fuzzers: folder/decode/, folder/link_reader/ and the others.
// From the repository: build/release/tests/support/write_corpus fuzz/corpus
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <variant>

#include "core/base/rng.h"
#include "core/flight/recorder.h"
#include "core/kernels/formats/reference.h"
#include "core/wire/codec.h"
#include "core/wire/run_token.h"
#include "fuzz/base32.h"
#include "sim/world/world.h"
#include "tests/sim/calm_plan.h"
#include "tests/sim/flight/recording_witness.h"
#include "tests/support/formats.h"
#include "tests/support/sample_messages.h"
#include "tests/support/write_stream.h"

namespace lockstep {
namespace {

using test::Bytes;

void save(const std::filesystem::path& path, const Bytes& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

// fuzz/decode.cc: type, body.
Bytes decode_seed(const wire::Message& message) {
  Bytes frame;
  wire::encode(message, Term{}, frame);
  Bytes seed{static_cast<std::byte>(message.index())};
  test::append(seed, std::span(frame).subspan(wire::kHeaderBytes));
  return seed;
}

// fuzz/link_reader.cc: how, then a stream.
Bytes reader_seed(std::uint8_t how, std::span<const wire::Message> messages, std::size_t segments) {
  test::StreamSource source;
  wire::LinkWriter writer;
  writer.preamble();
  Bytes seed{std::byte{how}};
  for (const auto& message : messages) {
    if (!std::holds_alternative<wire::Segment>(message)) writer.message(message, Term{1});
  }
  for (std::uint32_t i = 0; i < segments; ++i) {
    wire::Segment segment;
    segment.index = {i};
    segment.length = i * 100;
    writer.segment(segment, Term{1}, source.keep(Bytes(segment.length, std::byte{'p'})), i);
  }
  test::append(seed, source.take_all(writer));
  return seed;
}

// fuzz/liars.h, fuzz/chosen_plan.h: any bytes are a valid play; these are drawn from a seed.
Bytes play_seed(std::uint64_t seed) {
  Bytes bytes(200 + 100 * seed);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(draw(seed, 1, i));
  return bytes;
}

// fuzz/flight_recording.cc: a recording without its header.
Bytes recording_seed(const flight::Recording& recording) {
  constexpr std::size_t kHeadBytes = 32;
  const Bytes file = flight::encode(recording);
  return {file.begin() + kHeadBytes, file.end()};
}

// The recording of a machine that strangers connect to; a small ring begins in the middle.
template <typename Machine, typename Options>
Bytes strangers_seed(const Options& options, std::size_t ring) {
  flight::Recorder<Machine> recorder(options, Instant{}, ring);
  Machine machine(options, Instant{});
  typename flight::Kind<Machine>::Effects effects;
  Instant now;
  const auto give = [&](typename flight::Kind<Machine>::Input input) {
    now = now + milliseconds(1);
    recorder.before(input, now);
    effects.clear();
    machine.step(std::move(input), now, effects);
    recorder.after(effects, machine);
  };
  for (std::uint64_t i = 0; i < 12; ++i) {
    const StreamId stream{2 * i + 1};
    give(io::Accepted{stream, {io::Address::Family::kV4, {127, 0, 0, 1}, 9}, {}});
    for (const auto& effect : effects) {
      const auto* read = std::get_if<io::Read>(&effect);
      if (read == nullptr) continue;
      Bytes hello;
      wire::encode(wire::Preamble{}, hello);
      std::ranges::copy(hello, read->tail.begin());
      give(io::ReadDone{stream, hello.size()});
      break;
    }
    if (i % 3 == 0) give(io::Closed{stream, io::CloseReason::kReset, "reset"});
  }
  return recording_seed(recorder.recording());
}

// The machines of a run in its middle, with calls in flight: the ring is so small that a recording begins there.
void save_seeds_of_a_run(const std::filesystem::path& folder) {
  sim::RecordingWitness witness(600);
  sim::WorldOptions options;
  options.witness = &witness;
  options.until = 4000;
  sim::Plan plan = sim::calm_plan(3);
  plan.mode = sim::Mode::kBytes;
  sim::run(plan, options);
  for (const flight::Recording& recording : witness.recordings()) {
    save(folder / (recording.of_peer() ? "peer_in_a_run" : "coordinator_in_a_run"), recording_seed(recording));
  }
}

// fuzz/wire_format.cc: format, elements, encoding.
Bytes format_seed(WireFormat format, std::size_t count) {
  Bytes seed{static_cast<std::byte>(format), static_cast<std::byte>(count % 256), static_cast<std::byte>(count / 256)};
  test::append(seed, reference::encode(format, test::hostile_floats(count, count)));
  return seed;
}

// fuzz/run_token.cc: a token as a text, and as a body that gets its checksum there.
void save_token_seeds(const std::filesystem::path& folder) {
  wire::RunToken token;
  token.coordinators = {"coordinator.example:4000"};
  token.id = {1};
  for (const std::string name : {"one", "most"}) {
    const std::string text = wire::text_of(token);
    save(folder / (name + "-text"), test::bytes_of(std::string(1, '\0') + text + "\n"));
    Bytes body{std::byte{1}};
    test::append(body, fuzz::token_body(text));
    save(folder / (name + "-body"), body);
    token.coordinators.assign(kMaxTokenAddresses, "[2001:db8::1]:4000");
    token.role = io::Role::kObserver;
    token.expires = 1'798'675'200;
  }
  save(folder / "later", test::bytes_of(std::string(1, '\0') + "lks2_abc"));
}

void write_corpus(const std::filesystem::path& folder) {
  const auto messages = test::sample_messages();
  for (const auto& message : messages) {
    save(folder / "decode" / wire::name_of_type(wire::type_of(message)), decode_seed(message));
  }
  save(folder / "link_reader" / "messages", reader_seed(0x1f, messages, 0));
  save(folder / "link_reader" / "segments", reader_seed(0x1d, {}, 5));
  save(folder / "link_reader" / "both", reader_seed(0x0f, messages, 2));
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const std::string name = "play" + std::to_string(seed);
    save(folder / "coordinator_machine" / name, play_seed(seed));
    save(folder / "peer_machine" / name, play_seed(seed));
    save(folder / "plan" / name, play_seed(seed));
    save(folder / "tls_records" / name, play_seed(seed));
  }
  peer::PeerOptions peer;
  peer.id = {1, 2};
  save(folder / "flight_recording" / "coordinator",
       strangers_seed<coordinator::Coordinator>(coordinator::CoordinatorOptions{}, 1 << 20));
  save(folder / "flight_recording" / "coordinator_from_the_middle",
       strangers_seed<coordinator::Coordinator>(coordinator::CoordinatorOptions{}, 400));
  save(folder / "flight_recording" / "peer", strangers_seed<peer::Peer>(peer, 1 << 20));
  save(folder / "flight_recording" / "peer_from_the_middle", strangers_seed<peer::Peer>(peer, 400));
  save_seeds_of_a_run(folder / "flight_recording");
  for (const auto format : test::kAllFormats) {
    const std::string name{name_of(format)};
    save(folder / "wire_format" / name, format_seed(format, 300));  // whole blocks and a remainder
    save(folder / "wire_format" / (name + "-tail"), format_seed(format, 7));
  }
  save_token_seeds(folder / "run_token");
  save(folder / "link_reader" / "http", test::bytes_of("xGET / HTTP/1.1\r\nHost: example.org\r\n\r\n"));
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  if (argc != 2) return 1;
  lockstep::write_corpus(argv[1]);
}
