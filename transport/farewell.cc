#include "transport/farewell.h"

#include <algorithm>
#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <system_error>
#include <utility>

namespace lockstep::transport {
namespace {

// Long enough to retransmit a lost packet or two on a long path; normally the other side closes after one round trip.
constexpr auto kPatience = std::chrono::seconds(2);
// The limit for a side that keeps sending. After it, nothing more is read: the window closes, and the time limit ends
// the stream.
constexpr std::size_t kMostDiscarded = 8U << 20U;
// The most streams that close at the same time; beyond it the oldest are cut off (promise S9).
constexpr std::size_t kMostAtOnce = 256;

}  // namespace

struct Farewells::Going {
  explicit Going(Socket from) : socket(std::move(from)), patience(socket.get_executor()) {}
  Socket socket;
  asio::steady_timer patience;
  std::size_t discarded = 0;
};

Farewells::~Farewells() {
  for (const auto& one : going_) {
    std::error_code ignored;
    one->socket.close(ignored);
  }
}

void Farewells::begin(Socket socket) {
  std::error_code error;
  socket.shutdown(Socket::shutdown_send, error);
  if (error) return;  // not connected any more: nothing can be delivered
  if (going_.size() >= kMostAtOnce) end(going_.front());
  const auto one = std::make_shared<Going>(std::move(socket));
  going_.push_back(one);
  one->patience.expires_after(kPatience);
  one->patience.async_wait([this, one](std::error_code aborted) {
    if (!aborted) end(one);
  });
  listen(one);
}

void Farewells::listen(const std::shared_ptr<Going>& one) {
  one->socket.async_wait(Socket::wait_read, [this, one](std::error_code error) {
    if (error || !one->socket.is_open()) return;
    const std::size_t bytes = one->socket.read_some(asio::buffer(nowhere_), error);
    if (error && error != asio::error::would_block && error != asio::error::try_again) return end(one);
    one->discarded += bytes;
    if (one->discarded < kMostDiscarded) listen(one);
  });
}

void Farewells::end(const std::shared_ptr<Going>& one) {
  const auto at = std::ranges::find(going_, one);
  if (at == going_.end()) return;
  const auto keep = *at;  // `one` may refer to an element of the list
  going_.erase(at);
  std::error_code ignored;
  keep->socket.close(ignored);
  keep->patience.cancel();
  if (going_.empty() && all_ended_) std::exchange(all_ended_, nullptr)();
}

void Farewells::cut_short() {
  while (!going_.empty()) end(going_.front());
}

void Farewells::when_all_ended(std::function<void()> action) {
  if (going_.empty()) return action();
  all_ended_ = std::move(action);
}

}  // namespace lockstep::transport
