#include "transport/stream_set.h"

#include <algorithm>
#include <asio/error.hpp>
#include <asio/socket_base.hpp>
#include <cstring>
#include <span>
#include <system_error>
#include <utility>

#include "core/base/assert.h"
#include "transport/address.h"
#include "transport/handler_memory.h"

namespace lockstep::transport {
namespace {

bool would_block(const std::error_code& error) {
  return error == asio::error::would_block || error == asio::error::try_again;
}

// Resets the connection: both sides discard bytes that were not sent or read.
void abort_socket(Socket& socket) {
  std::error_code ignored;
  socket.set_option(asio::socket_base::linger(true, 0), ignored);
  socket.close(ignored);
}

}  // namespace

struct StreamSet::Stream {
  // One direction: its loan, and what is known about the socket.
  struct Half {
    bool lent = false;
    bool queued = false;   // contained in ready_
    bool waiting = false;  // the reactor will report when the direction can continue
    bool dry = false;      // the last attempt moved fewer bytes than requested, so the next would move none
    HandlerMemory memory;
  };

  Stream(StreamId name, Socket opened) : id(name), socket(std::move(opened)) {}
  Half& half(io::Direction direction) { return direction == io::Direction::kRead ? read : write; }

  StreamId id;
  Socket socket;
  bool open = false;   // false: dialling
  bool ended = false;  // removed from streams_
  bool doomed = false;
  io::CloseReason doom_reason = io::CloseReason::kReset;
  std::string doom_text;
  Half read;
  Half write;
  std::array<asio::mutable_buffer, 2> into;
  std::array<asio::const_buffer, io::SliceList::kCapacity> from;
  std::size_t from_count = 0;
};

StreamSet::StreamSet(asio::io_context& io, const Memory& memory, Connector::Options options, Log log,
                     std::function<void()> on_ready)
    : io_(io), memory_(memory), on_ready_(std::move(on_ready)), connector_(io, std::move(options), std::move(log)) {}

StreamSet::~StreamSet() {
  for (const auto& [id, stream] : streams_) {
    stream->ended = true;
    abort_socket(stream->socket);
  }
}

// ---- effects ----

void StreamSet::carry_out(const io::Dial& effect) {
  const StreamPtr stream = add(effect.stream, Socket(io_));
  connector_.dial(stream->socket, effect.to, [this, stream](std::error_code error, Duration round_trip) {
    on_dialled(stream, error, round_trip);
  });
}

void StreamSet::carry_out(const io::Read& effect) {
  const StreamPtr stream = find(effect.stream);
  if (stream == nullptr) return;
  LOCKSTEP_ASSERT(stream->open && !stream->read.lent);
  LOCKSTEP_ASSERT(effect.place.length + effect.tail.size() > 0);
  stream->into = {};
  if (effect.place.length > 0) {
    const auto place = memory_.at(effect.place);
    stream->into[0] = asio::buffer(place.data(), place.size());
  }
  stream->into[1] = asio::buffer(effect.tail.data(), effect.tail.size());
  stream->read.lent = true;
  schedule(stream, io::Direction::kRead);
}

void StreamSet::carry_out(const io::Write& effect) {
  const StreamPtr stream = find(effect.stream);
  if (stream == nullptr) return;
  LOCKSTEP_ASSERT(stream->open && !stream->write.lent);
  stream->from_count = 0;
  for (const io::Slice& slice : effect.slices.all()) {
    std::span<const std::byte> bytes = slice.bytes;
    if (bytes.empty()) bytes = memory_.at(slice.payload);
    if (!bytes.empty()) stream->from[stream->from_count++] = asio::buffer(bytes.data(), bytes.size());
  }
  LOCKSTEP_ASSERT(stream->from_count > 0);
  stream->write.lent = true;
  schedule(stream, io::Direction::kWrite);
}

void StreamSet::carry_out(const io::Revoke& effect) {
  const StreamPtr stream = find(effect.stream);
  if (stream == nullptr) return;
  // Bytes move only inside attempt_*(), so the loan ends as soon as it is removed here.
  stream->half(effect.direction).lent = false;
  inputs_.push(io::Revoked{effect.stream, effect.direction, 0});
}

void StreamSet::carry_out(const io::Close& effect) {
  const StreamPtr stream = find(effect.stream);
  if (stream == nullptr) return;
  if (effect.flush_first && stream->open && !stream->doomed) {
    stream->socket.cancel();
    closer_.begin(std::move(stream->socket));
  } else {
    abort_socket(stream->socket);
  }
  end(stream, io::CloseReason::kAsked, {});
}

void StreamSet::carry_out(const io::Place& effect) {
  const auto into = memory_.at(effect.into);
  LOCKSTEP_ASSERT(effect.bytes.size() <= into.size());
  if (!effect.bytes.empty()) std::memcpy(into.data(), effect.bytes.data(), effect.bytes.size());
}

// ---- opening and closing ----

StreamSet::StreamPtr StreamSet::find(StreamId id) const {
  const auto found = streams_.find(id.value);
  return found == streams_.end() ? nullptr : found->second;
}

StreamSet::StreamPtr StreamSet::add(StreamId id, Socket socket) {
  auto stream = std::make_shared<Stream>(id, std::move(socket));
  LOCKSTEP_ASSERT(streams_.emplace(id.value, stream).second);  // stream ids are never reused
  return stream;
}

void StreamSet::on_dialled(const StreamPtr& stream, const std::error_code& error, Duration round_trip) {
  if (stream->ended) return;
  if (error) {
    end(stream, close_reason(error), error.message());
  } else {
    stream->open = true;
    inputs_.push(io::Opened{stream->id, round_trip});
  }
  on_ready_();
}

Result<io::Address> StreamSet::listen(const ListenPlan& plan) {
  return connector_.listen(plan,
                           [this](Socket socket, const io::Address& from) { on_accepted(std::move(socket), from); });
}

void StreamSet::stop_listening() { connector_.close(); }

void StreamSet::on_accepted(Socket socket, const io::Address& from) {
  const StreamPtr stream = add(accepted_names_.next(), std::move(socket));
  stream->open = true;
  inputs_.push(io::Accepted{stream->id, from});
  on_ready_();
}

void StreamSet::end(const StreamPtr& stream, io::CloseReason reason, std::string text) {
  LOCKSTEP_ASSERT(!stream->ended);
  stream->ended = true;
  stream->read.lent = false;
  stream->write.lent = false;
  streams_.erase(stream->id.value);
  std::error_code ignored;
  stream->socket.close(ignored);
  inputs_.push(io::Closed{stream->id, reason, std::move(text)});
}

void StreamSet::shut_down(ClosingStreams closing, std::function<void()> done) {
  connector_.close();
  for (const auto& [id, stream] : streams_) {
    stream->ended = true;
    abort_socket(stream->socket);
  }
  streams_.clear();
  if (closing == ClosingStreams::kCutShort) closer_.cut_short();
  closer_.when_all_ended(std::move(done));
}

// ---- reading and writing ----

bool StreamSet::next(io::Input& input) {
  if (inputs_.empty()) return false;
  input = inputs_.pop();
  return true;
}

void StreamSet::schedule(const StreamPtr& stream, io::Direction direction) {
  Stream::Half& half = stream->half(direction);
  if (half.waiting || half.queued) return;
  if (half.dry && !stream->doomed) return wait(stream, direction);
  half.queued = true;
  ready_.push({stream, direction});
}

void StreamSet::wait(const StreamPtr& stream, io::Direction direction) {
  Stream::Half& half = stream->half(direction);
  half.waiting = true;
  stream->socket.async_wait(
      direction == io::Direction::kRead ? Socket::wait_read : Socket::wait_write,
      placed(half.memory, [this, stream, direction](std::error_code error) { on_waited(stream, direction, error); }));
}

void StreamSet::on_waited(const StreamPtr& stream, io::Direction direction, const std::error_code& error) {
  if (stream->ended) return;
  Stream::Half& half = stream->half(direction);
  half.waiting = false;
  half.dry = false;
  if (error == asio::error::operation_aborted || !half.lent) return;
  schedule(stream, direction);
  on_ready_();
}

bool StreamSet::advance() {
  if (ready_.empty()) {
    if (doomed_.empty()) return false;
    advance_doomed();
    return true;
  }
  const Ready ready = ready_.pop();
  Stream::Half& half = ready.stream->half(ready.direction);
  half.queued = false;
  if (ready.stream->ended || !half.lent) return true;  // revoked or over
  if (ready.direction == io::Direction::kRead) {
    attempt_read(ready.stream);
  } else if (!ready.stream->doomed) {
    attempt_write(ready.stream);
  }
  return true;
}

void StreamSet::attempt_read(const StreamPtr& stream) {
  const std::size_t asked = stream->into[0].size() + stream->into[1].size();
  std::error_code error;
  const std::size_t bytes = stream->socket.read_some(stream->into, error);
  if (error && stream->doomed) return end(stream, stream->doom_reason, std::move(stream->doom_text));
  if (would_block(error)) return wait(stream, io::Direction::kRead);
  if (error) return end(stream, close_reason(error), error == asio::error::eof ? std::string() : error.message());
  stream->read.lent = false;
  stream->read.dry = bytes < asked;
  bytes_read_.fetch_add(bytes, std::memory_order_relaxed);
  inputs_.push(io::ReadDone{stream->id, bytes});
}

void StreamSet::attempt_write(const StreamPtr& stream) {
  const std::span<const asio::const_buffer> from(stream->from.data(), stream->from_count);
  std::error_code error;
  const std::size_t bytes = stream->socket.write_some(from, error);
  if (would_block(error)) return wait(stream, io::Direction::kWrite);
  if (error) return doom(stream, error);
  stream->write.lent = false;
  stream->write.dry = bytes < asio::buffer_size(from);
  bytes_written_.fetch_add(bytes, std::memory_order_relaxed);
  inputs_.push(io::WriteDone{stream->id, bytes});
}

// ---- streams whose writing failed ----

// The other side may have sent a reason before it closed, which is still to be read. The loan for writing stays lent.
void StreamSet::doom(const StreamPtr& stream, const std::error_code& error) {
  stream->doomed = true;
  stream->doom_reason = close_reason(error);
  stream->doom_text = error.message();
  doomed_.push(stream);
}

// Called when all read bytes were processed and there is nothing else to do: reads on, or ends the stream.
void StreamSet::advance_doomed() {
  const StreamPtr stream = doomed_.pop();
  if (stream->ended) return;
  if (!stream->read.lent) {
    end(stream, stream->doom_reason, std::move(stream->doom_text));
    return;
  }
  attempt_read(stream);
  if (!stream->ended) doomed_.push(stream);
}

}  // namespace lockstep::transport
