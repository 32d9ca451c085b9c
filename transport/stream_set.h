// All streams of one machine: carries out its io:: effects on sockets and produces io:: inputs. Makes no decisions.
//
// A stream to a machine of the same reactor has no socket: its bytes go from the memory of one to that of the other.
// Any other stream has a TLS session, if the machine has credentials.
//
// Reads and writes are attempted at once, as long as they succeed; they wait for the reactor only if the socket has no
// data or no room. So a loan can be ended at any moment. Streams take turns, one system call each.
//
// Not thread-safe: used by the thread that runs the io_context only. Inputs are queued and never delivered inside
// carry_out(), so no machine is entered recursively. A steady state does not allocate.
#pragma once

#include <array>
#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "core/io/stream.h"
#include "transport/congestion_use.h"
#include "transport/connector.h"
#include "transport/fifo.h"
#include "transport/graceful_closer.h"
#include "transport/local_streams.h"
#include "transport/memory.h"
#include "transport/tls/session.h"

namespace lockstep::transport {

class StreamSet {
 public:
  // `on_ready` is called from the reactor, never inside a method, when next() or advance() has work again.
  // `local`: the listeners of this reactor; null: each stream has a socket.
  StreamSet(asio::io_context& io, const Memory& memory, Connector::Options options, Log log,
            std::function<void()> on_ready, LocalStreams* local = nullptr);
  StreamSet(const StreamSet&) = delete;
  StreamSet& operator=(const StreamSet&) = delete;
  ~StreamSet();

  // How the streams are protected that are opened from now on. Without it: plain streams, within this machine.
  void secure(Security security) { connector_.secure(std::move(security)); }

  // Carries out effects. Effects on a stream that has ended meanwhile are dropped; its Closed input follows.
  void carry_out(const io::Dial& effect);
  void carry_out(const io::Read& effect);
  void carry_out(const io::Write& effect);
  void carry_out(const io::Revoke& effect);
  void carry_out(const io::Close& effect);
  void carry_out(const io::CopyBytes& effect);

  // From now on, connections of strangers arrive as io::Accepted.
  Result<io::Address> listen(const ListenPlan& plan);
  void stop_listening();

  // Takes the next input, if there is one.
  bool next(io::Input& input);
  // Attempts one read or write. Returns false if nothing can be attempted before the reactor reports readiness.
  bool advance();
  [[nodiscard]] bool idle() const { return inputs_.empty() && ready_.empty() && doomed_.empty(); }

  enum class ClosingStreams : std::uint8_t { kWait, kCutShort };
  // Resets all streams without further inputs. `done` is called once all closing streams have ended: in an orderly way,
  // or at once.
  void shut_down(ClosingStreams closing, std::function<void()> done);

  [[nodiscard]] std::size_t size() const { return streams_.size() + closer_.size(); }
  [[nodiscard]] const CongestionUse& congestion_use() const { return congestion_use_; }
  // The number of open streams of TCP that tensors were written to after so many writes.
  [[nodiscard]] std::uint32_t used_since(std::uint64_t writes) const;
  // Callable from any thread.
  [[nodiscard]] std::uint64_t bytes_read() const { return bytes_read_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t bytes_written() const { return bytes_written_.load(std::memory_order_relaxed); }

 private:
  struct Stream;
  using StreamPtr = std::shared_ptr<Stream>;
  struct Ready {
    StreamPtr stream;
    io::Direction direction = io::Direction::kRead;
  };

  [[nodiscard]] StreamPtr find(StreamId id) const;
  StreamPtr add(StreamId id, Socket socket);
  void on_dialled(const StreamPtr& stream, const std::optional<Connector::Failure>& failure, Connector::Opened opened);
  void on_accepted(Socket socket, const io::Address& from, Connector::Opened opened);
  static std::string words_of(const Stream& stream, const std::error_code& error);
  static io::Identity identity_of(const Stream& stream);
  [[nodiscard]] io::Identity local_identity_of(const StreamSet& dialler, bool to_coordinator) const;
  void set_open(Stream& stream, Connector::Opened opened);
  void schedule(const StreamPtr& stream, io::Direction direction);
  void wait(const StreamPtr& stream, io::Direction direction);
  void on_waited(const StreamPtr& stream, io::Direction direction, const std::error_code& error);
  void attempt_read(const StreamPtr& stream);
  void attempt_write(const StreamPtr& stream);
  std::size_t read_some(const StreamPtr& stream, std::error_code& error);
  std::size_t write_some(Stream& stream, std::error_code& error);
  void send_pending(const StreamPtr& stream);
  std::optional<io::Written> written_by_now(std::size_t bytes);
  void dial_local(const StreamPtr& stream, StreamSet& to, const io::Dial& effect);
  void attempt_local(const StreamPtr& stream, io::Direction direction);
  static void move_bytes(Stream& writer, Stream& reader);
  static void leave(Stream& stream);
  void wake();
  void doom(const StreamPtr& stream, const std::error_code& error);
  void advance_doomed();
  void end(const StreamPtr& stream, io::CloseReason reason, std::string text);

  asio::io_context& io_;
  const Memory& memory_;
  std::function<void()> on_ready_;
  LocalStreams* local_;
  bool waking_ = false;
  Connector connector_;
  CongestionUse congestion_use_;
  GracefulCloser closer_;
  io::StreamNames accepted_names_ = io::StreamNames::for_accepting();
  std::unordered_map<std::uint64_t, StreamPtr> streams_;
  Fifo<io::Input> inputs_;
  Fifo<Ready> ready_;
  Fifo<StreamPtr> doomed_;          // streams whose writing failed; they end after the received bytes were read
  Instant asked_;                   // when the kernel was last asked what was acknowledged
  std::uint64_t packets_lost_ = 0;  // those that were sent again, as the kernel said then
  std::atomic<std::uint64_t> bytes_read_{0};
  std::atomic<std::uint64_t> bytes_written_{0};
};

}  // namespace lockstep::transport
