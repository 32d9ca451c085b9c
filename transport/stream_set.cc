#include "transport/stream_set.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <asio/error.hpp>
#include <asio/socket_base.hpp>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "core/base/assert.h"
#include "transport/address.h"
#include "transport/clock.h"
#include "transport/handler_memory.h"
#include "transport/tcp_info.h"
#include "transport/unsent_limit.h"

namespace lockstep::transport {
namespace {

bool would_block(const std::error_code& error) {
  return error == asio::error::would_block || error == asio::error::try_again;
}

// Bytes that the other host has not acknowledged.
std::uint64_t outstanding_on(Socket& socket) {
  int bytes = 0;
  return ::ioctl(socket.native_handle(), SIOCOUTQ, &bytes) == 0 ? static_cast<std::uint64_t>(bytes) : 0;
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

  Stream(StreamId name, StreamSet& its, Socket opened) : id(name), home(its), socket(std::move(opened)) {}
  Half& half(io::Direction direction) { return direction == io::Direction::kRead ? read : write; }

  StreamId id;
  StreamSet& home;
  Socket socket;
  std::shared_ptr<tls::Session> tls;          // null: plain
  StreamPtr other;                            // the other end, if it is in this process: then there is no socket
  bool ended_in_order = false;                // with `other`: all that was written has arrived there
  bool open = false;                          // false: dialling
  CongestionUse::Control* control = nullptr;  // null: not known, or no socket
  std::uint64_t last_write = 0;               // of a tensor: its number in CongestionUse; 0: none yet
  UnsentLimit unsent;
  std::uint64_t lost = 0;  // packets that were sent again, when the kernel was last asked
  bool ended = false;      // removed from streams_
  bool doomed = false;
  io::CloseReason doom_reason = io::CloseReason::kReset;
  std::string doom_text;
  Half read;
  Half write;
  std::array<asio::mutable_buffer, 2> into;
  std::array<asio::const_buffer, io::SliceList::kCapacity> from;
  std::size_t from_count = 0;
};

// Why a stream ended.
std::string StreamSet::words_of(const Stream& stream, const std::error_code& error) {
  if (error == asio::error::eof) return {};
  return stream.tls != nullptr ? stream.tls->words_of(error) : error.message();
}

StreamSet::StreamSet(asio::io_context& io, const Memory& memory, Connector::Options options, Log log,
                     std::function<void()> on_ready, LocalStreams* local)
    : io_(io),
      memory_(memory),
      on_ready_(std::move(on_ready)),
      local_(local),
      connector_(io, std::move(options), std::move(log)) {}

StreamSet::~StreamSet() {
  for (const auto& [id, stream] : streams_) {
    stream->ended = true;
    stream->other.reset();
    abort_socket(stream->socket);
  }
}

// ---- effects ----

void StreamSet::carry_out(const io::Dial& effect) {
  const StreamPtr stream = add(effect.stream, Socket(io_));
  if (StreamSet* const to = local_ == nullptr ? nullptr : local_->find(effect.to)) {
    return dial_local(stream, *to, effect);
  }
  connector_.dial(stream->socket, effect,
                  [this, stream](const std::optional<Connector::Failure>& failure, Connector::Opened opened) {
                    on_dialled(stream, failure, std::move(opened));
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

std::uint32_t StreamSet::used_since(std::uint64_t writes) const {
  return static_cast<std::uint32_t>(
      std::ranges::count_if(streams_, [&](const auto& entry) { return entry.second->last_write > writes; }));
}

void StreamSet::carry_out(const io::Write& effect) {
  const StreamPtr stream = find(effect.stream);
  if (stream == nullptr) return;
  LOCKSTEP_ASSERT(stream->open && !stream->write.lent);
  stream->from_count = 0;
  for (const io::Slice& slice : effect.slices.all()) {
    std::span<const std::byte> bytes = slice.bytes;
    if (bytes.empty()) {
      bytes = memory_.at(slice.payload);
      if (stream->control != nullptr) {
        congestion_use_.wrote(*stream->control);
        stream->last_write = congestion_use_.writes();
      }
    }
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
  if (stream->other != nullptr) {
    stream->ended_in_order = effect.flush_first;
  } else if (effect.flush_first && stream->open && !stream->doomed) {
    stream->socket.cancel();
    std::vector<std::byte> rest;
    if (stream->tls != nullptr) {
      rest = stream->tls->finish();
      stream->tls.reset();
    }
    closer_.begin(std::move(stream->socket), std::move(rest));
  } else {
    abort_socket(stream->socket);
  }
  end(stream, io::CloseReason::kAsked, {});
}

void StreamSet::carry_out(const io::CopyBytes& effect) {
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
  auto stream = std::make_shared<Stream>(id, *this, std::move(socket));
  LOCKSTEP_ASSERT(streams_.emplace(id.value, stream).second);  // stream ids are never reused
  return stream;
}

void StreamSet::set_open(Stream& stream, Connector::Opened opened) {
  stream.open = true;
  stream.tls = std::move(opened.tls);
  const Connector::Path& path = opened.path;
  if (path.paced) stream.unsent.begin(stream.socket.native_handle());
  if (!path.congestion_control.empty()) stream.control = &congestion_use_.control(path.congestion_control);
}

io::Identity StreamSet::identity_of(const Stream& stream) {
  return stream.tls == nullptr ? io::Identity{} : stream.tls->identity();
}

void StreamSet::on_dialled(const StreamPtr& stream, const std::optional<Connector::Failure>& failure,
                           Connector::Opened opened) {
  if (stream->ended) return;
  if (failure) {
    end(stream, close_reason(failure->error), failure->text);
  } else {
    const Duration round_trip = opened.path.round_trip;
    set_open(*stream, std::move(opened));
    std::error_code ignored;
    const io::Address local = to_address(stream->socket.local_endpoint(ignored));
    inputs_.push(io::Opened{stream->id, round_trip, identity_of(*stream), local});
  }
  on_ready_();
}

Result<io::Address> StreamSet::listen(const ListenPlan& plan) {
  Result<io::Address> bound =
      connector_.listen(plan, [this](Socket socket, const io::Address& from, Connector::Opened opened) {
        on_accepted(std::move(socket), from, std::move(opened));
      });
  if (bound && local_ != nullptr) local_->add(*this, plan, bound->port);
  return bound;
}

void StreamSet::stop_listening() {
  connector_.close();
  if (local_ != nullptr) local_->remove(*this);
}

void StreamSet::on_accepted(Socket socket, const io::Address& from, Connector::Opened opened) {
  const StreamPtr stream = add(accepted_names_.next(), std::move(socket));
  const Duration round_trip = opened.path.round_trip;
  set_open(*stream, std::move(opened));
  inputs_.push(io::Accepted{stream->id, from, round_trip, identity_of(*stream)});
  on_ready_();
}

void StreamSet::end(const StreamPtr& stream, io::CloseReason reason, std::string text) {
  LOCKSTEP_ASSERT(!stream->ended);
  stream->ended = true;
  stream->read.lent = false;
  stream->write.lent = false;
  streams_.erase(stream->id.value);
  leave(*stream);
  std::error_code ignored;
  stream->socket.close(ignored);
  inputs_.push(io::Closed{stream->id, reason, std::move(text)});
}

void StreamSet::shut_down(ClosingStreams closing, std::function<void()> done) {
  stop_listening();
  for (const auto& [id, stream] : streams_) {
    stream->ended = true;
    leave(*stream);
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
  if (stream->other != nullptr) half.waiting = false;  // no reactor: it waits for the other end
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
  if (error == asio::error::operation_aborted) return;
  if (direction == io::Direction::kWrite && stream->tls != nullptr && !stream->doomed) send_pending(stream);
  if (!half.lent) return;
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
  if (stream->other != nullptr) return attempt_local(stream, io::Direction::kRead);
  std::error_code error;
  const std::size_t bytes = read_some(stream, error);
  if (error && stream->doomed) return end(stream, stream->doom_reason, std::move(stream->doom_text));
  if (would_block(error)) return wait(stream, io::Direction::kRead);
  if (error) return end(stream, close_reason(error), words_of(*stream, error));
  stream->read.lent = false;
  bytes_read_.fetch_add(bytes, std::memory_order_relaxed);
  inputs_.push(io::ReadDone{stream->id, bytes});
}

void StreamSet::attempt_write(const StreamPtr& stream) {
  if (stream->other != nullptr) return attempt_local(stream, io::Direction::kWrite);
  std::error_code error;
  const std::size_t bytes = write_some(*stream, error);
  if (would_block(error)) return wait(stream, io::Direction::kWrite);
  if (error) return doom(stream, error);
  stream->write.lent = false;
  if (stream->tls != nullptr && stream->tls->pending() > 0) wait(stream, io::Direction::kWrite);
  bytes_written_.fetch_add(bytes, std::memory_order_relaxed);
  inputs_.push(io::WriteDone{stream->id, bytes, written_by_now(bytes)});
}

std::size_t StreamSet::read_some(const StreamPtr& stream, std::error_code& error) {
  if (stream->tls != nullptr) {
    const std::size_t bytes = stream->tls->read(stream->into, error);
    stream->read.dry = stream->tls->is_dry();
    if (stream->tls->pending() > 0 && !stream->write.waiting) wait(stream, io::Direction::kWrite);
    return bytes;
  }
  const std::size_t bytes = stream->socket.read_some(stream->into, error);
  stream->read.dry = bytes < asio::buffer_size(stream->into);
  return bytes;
}

std::size_t StreamSet::write_some(Stream& stream, std::error_code& error) {
  const std::span<const asio::const_buffer> from(stream.from.data(), stream.from_count);
  if (stream.tls != nullptr) {
    // Encrypted bytes cannot go on another stream any more, as those in the kernel.
    const std::size_t most = stream.unsent.is_set() ? UnsentLimit::kLeast : UnsentLimit::kMost;
    return stream.tls->write(from, most, error);
  }
  const std::size_t bytes = stream.socket.write_some(from, error);
  stream.write.dry = bytes < asio::buffer_size(from);
  return bytes;
}

// What TLS has encrypted, and the socket did not take.
void StreamSet::send_pending(const StreamPtr& stream) {
  const std::error_code error = stream->tls->flush();
  if (would_block(error)) return wait(stream, io::Direction::kWrite);
  if (error) doom(stream, error);
}

// Asks the kernel about every stream, after a write that is long enough to measure a line by, and not too often. The
// bytes of streams that have ended count as acknowledged.
std::optional<io::Written> StreamSet::written_by_now(std::size_t bytes) {
  constexpr std::size_t kLeastBytes = 16'384;
  constexpr Duration kLeastTime = milliseconds(50);
  if (bytes < kLeastBytes) return std::nullopt;
  const Instant moment = now();
  if (moment - asked_ < kLeastTime) return std::nullopt;
  asked_ = moment;
  std::uint64_t outstanding = 0;
  for (const auto& [id, stream] : streams_) {
    if (!stream->open || stream->other != nullptr) continue;
    outstanding += outstanding_on(stream->socket) + (stream->tls != nullptr ? stream->tls->pending() : 0);
    const tcp_info info = tcp_info_of(stream->socket.native_handle());
    stream->unsent.suit_to(stream->socket.native_handle(), info);
    const std::uint64_t before =
        std::exchange(stream->lost, std::max<std::uint64_t>(stream->lost, info.tcpi_total_retrans));
    packets_lost_ += stream->lost - before;
  }
  const std::uint64_t all = bytes_written();
  outstanding = std::min(outstanding, all);
  return io::Written{all - outstanding, outstanding, packets_lost_};
}

// ---- streams without a socket ----

void StreamSet::dial_local(const StreamPtr& stream, StreamSet& to, const io::Dial& effect) {
  const StreamPtr accepted = to.add(to.accepted_names_.next(), Socket(io_));
  stream->other = accepted;
  accepted->other = stream;
  stream->open = true;
  accepted->open = true;
  const Duration round_trip = microseconds(1);
  inputs_.push(io::Opened{stream->id, round_trip, to.local_identity_of(to, false)});
  // A machine that dials itself has the address that it dials.
  to.inputs_.push(
      io::Accepted{accepted->id, effect.to, round_trip, to.local_identity_of(*this, effect.to_coordinator)});
  to.wake();
}

// What TLS would have proved of `dialler` to this machine. Within one process nothing is secret: so that runs with and
// without sockets behave alike.
io::Identity StreamSet::local_identity_of(const StreamSet& dialler, bool to_coordinator) const {
  const auto& theirs = dialler.connector_.security().credentials;
  const auto& ours = connector_.security().credentials;
  if (theirs == nullptr || ours == nullptr) return {};
  io::Identity identity{theirs->digest(), {}, false};
  if (!to_coordinator) return identity;
  identity.token = theirs->token().id;
  const tls::Secret* const secret = ours->secret_of(identity.token);
  identity.proved = secret != nullptr && tls::equal(*secret, theirs->token().secret);
  return identity;
}

void StreamSet::attempt_local(const StreamPtr& stream, io::Direction direction) {
  Stream& other = *stream->other;
  if (other.ended) {
    if (direction == io::Direction::kWrite) return doom(stream, asio::error::broken_pipe);
    return end(stream, other.ended_in_order ? io::CloseReason::kEnd : io::CloseReason::kReset, {});
  }
  stream->half(direction).waiting = true;
  const bool reads = direction == io::Direction::kRead;
  Stream& writer = reads ? other : *stream;
  Stream& reader = reads ? *stream : other;
  if (!writer.write.lent || !reader.read.lent) return;
  move_bytes(writer, reader);
  other.home.wake();
}

// Both ends have lent memory: moves what fits.
void StreamSet::move_bytes(Stream& writer, Stream& reader) {
  const std::span<const asio::const_buffer> from(writer.from.data(), writer.from_count);
  const std::size_t bytes = asio::buffer_copy(reader.into, from);
  for (Stream::Half* const half : {&writer.write, &reader.read}) {
    half->lent = false;
    half->waiting = false;
  }
  writer.home.bytes_written_.fetch_add(bytes, std::memory_order_relaxed);
  reader.home.bytes_read_.fetch_add(bytes, std::memory_order_relaxed);
  writer.home.inputs_.push(io::WriteDone{writer.id, bytes});
  reader.home.inputs_.push(io::ReadDone{reader.id, bytes});
}

// This end of a stream has ended: the other learns of it.
void StreamSet::leave(Stream& stream) {
  if (stream.other == nullptr) return;
  const StreamPtr other = std::exchange(stream.other, nullptr);
  if (other->ended) return other->other.reset();
  for (const auto direction : {io::Direction::kRead, io::Direction::kWrite}) {
    if (other->half(direction).lent) other->home.schedule(other, direction);
  }
  other->home.wake();
}

// The machine of this set takes a turn soon.
void StreamSet::wake() {
  if (std::exchange(waking_, true)) return;
  asio::post(io_, [this] {
    waking_ = false;
    on_ready_();
  });
}

// ---- streams whose writing failed ----

// The other side may have sent a reason before it closed, which is still to be read. The loan for writing stays lent.
void StreamSet::doom(const StreamPtr& stream, const std::error_code& error) {
  stream->doomed = true;
  stream->doom_reason = close_reason(error);
  stream->doom_text = words_of(*stream, error);
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
