#include "transport/graceful_closer.h"

#include <algorithm>
#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>
#include <chrono>
#include <system_error>
#include <utility>

#include "transport/driver_mutant.h"

namespace lockstep::transport {
namespace {

// Long enough to retransmit a lost packet or two on a long path; normally the other side closes after one round trip.
constexpr auto kPatience = std::chrono::seconds(2);
// The limit for a side that keeps sending. After it, nothing more is read: the window closes, and the time limit ends
// the stream.
constexpr std::size_t kMostDiscarded = 8U << 20U;
// The most streams that close at the same time; beyond it the oldest are cut off (promise S9).
constexpr std::size_t kMostClosing = 256;

}  // namespace

struct GracefulCloser::Closing {
  explicit Closing(Socket from) : socket(std::move(from)), patience(socket.get_executor()) {}
  Socket socket;
  asio::steady_timer patience;
  std::size_t discarded = 0;
  std::vector<std::byte> rest;  // to be sent before the end
};

GracefulCloser::~GracefulCloser() {
  for (const auto& stream : closing_) {
    std::error_code ignored;
    stream->socket.close(ignored);
  }
}

void GracefulCloser::begin(Socket socket, std::vector<std::byte> rest) {
  if (planted(DriverMutant::kClosesAtOnce)) return;
  if (closing_.size() >= kMostClosing) end(closing_.front());
  const auto stream = std::make_shared<Closing>(std::move(socket));
  stream->rest = std::move(rest);
  closing_.push_back(stream);
  stream->patience.expires_after(kPatience);
  stream->patience.async_wait([this, stream](std::error_code aborted) {
    if (!aborted) end(stream);
  });
  send_rest(stream);
}

void GracefulCloser::send_rest(const std::shared_ptr<Closing>& stream) {
  if (stream->rest.empty()) return end_sending(stream);
  asio::async_write(stream->socket, asio::buffer(stream->rest), [this, stream](std::error_code error, std::size_t) {
    if (error == asio::error::operation_aborted) return;
    if (error) return end(stream);
    end_sending(stream);
  });
}

void GracefulCloser::end_sending(const std::shared_ptr<Closing>& stream) {
  std::error_code error;
  stream->socket.shutdown(Socket::shutdown_send, error);
  if (error) return end(stream);  // not connected any more: nothing can be delivered
  listen(stream);
}

void GracefulCloser::listen(const std::shared_ptr<Closing>& stream) {
  stream->socket.async_wait(Socket::wait_read, [this, stream](std::error_code error) {
    if (error || !stream->socket.is_open()) return;
    const std::size_t bytes = stream->socket.read_some(asio::buffer(discarded_bytes_), error);
    if (error && error != asio::error::would_block && error != asio::error::try_again) return end(stream);
    stream->discarded += bytes;
    if (stream->discarded < kMostDiscarded) listen(stream);
  });
}

void GracefulCloser::end(const std::shared_ptr<Closing>& stream) {
  const auto at = std::ranges::find(closing_, stream);
  if (at == closing_.end()) return;
  const auto keep = *at;  // `stream` may refer to an element of the list
  closing_.erase(at);
  std::error_code ignored;
  keep->socket.close(ignored);
  keep->patience.cancel();
  if (closing_.empty() && all_ended_) std::exchange(all_ended_, nullptr)();
}

void GracefulCloser::cut_short() {
  while (!closing_.empty()) end(closing_.front());
}

void GracefulCloser::when_all_ended(std::function<void()> action) {
  if (closing_.empty()) return action();
  all_ended_ = std::move(action);
}

}  // namespace lockstep::transport
