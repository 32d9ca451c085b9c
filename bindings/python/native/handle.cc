#include "bindings/python/native/handle.h"

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

#include "bindings/python/native/call.h"
#include "bindings/python/native/error.h"
#include "bindings/python/native/fork.h"
#include "bindings/python/native/gil.h"
#include "bindings/python/native/terminate.h"

namespace lockstep::python {
namespace {

struct Handles {
  std::mutex mutex;
  std::condition_variable destroyed;
  std::vector<std::weak_ptr<Handle>> alive;  // accessed with the GIL held
  std::size_t being_destroyed = 0;           // on their own threads; under `mutex`
};

Handles& handles() { return OfProcess<Handles>::get(); }

std::atomic<bool> exiting{false};

}  // namespace

HandlePtr Handle::make(lockstep_comm* comm, End end, std::unique_ptr<Lines> log, std::unique_ptr<Lines> journal) {
  HandlePtr made(new Handle(std::make_shared<Parts>(Parts{comm, std::move(log), std::move(journal), {}}), end));
  if (end == End::kOnAThread) {
    std::erase_if(handles().alive, [](const auto& one) { return one.expired(); });
    handles().alive.push_back(made);
  }
  return made;
}

Handle::Handle(std::shared_ptr<Parts> parts, End end) : parts_(std::move(parts)), end_(end), made_in_(::getpid()) {}

Handle::~Handle() {
  if (::getpid() != made_in_ || is_exiting()) {
    // The library's threads exist only in the parent, or the communicator is closed and the process exits.
    static_cast<void>(parts_->log.release());
    static_cast<void>(parts_->journal.release());
    return;
  }
  {
    const std::lock_guard lock(handles().mutex);
    handles().being_destroyed += 1;
  }
  bool is_left_to_a_thread = end_ == End::kOnAThread;
  try {
    if (is_left_to_a_thread) std::thread([parts = parts_] { destroy(*parts); }).detach();
  } catch (const std::system_error&) {  // no more threads can be started
    is_left_to_a_thread = false;
  }
  if (!is_left_to_a_thread) destroy(*parts_);
}

void Handle::destroy(Parts& parts) {
  lockstep_comm_destroy(parts.comm);
  for (auto& loan : parts.loans) give_back_later(std::move(loan.second));
  parts.log.reset();
  parts.journal.reset();
  const std::lock_guard lock(handles().mutex);
  handles().being_destroyed -= 1;
  handles().destroyed.notify_all();
}

void Handle::lend(std::uint64_t tag, std::shared_ptr<void> loan) {
  std::erase_if(parts_->loans, [&](const auto& entry) { return entry.first == tag; });
  if (loan) parts_->loans.emplace_back(tag, std::move(loan));
}

void Handle::close() {
  {
    const WithoutGil released;
    lockstep_comm_close(comm());
  }
  if (parts_->log) parts_->log->end();
  if (parts_->journal) parts_->journal->end();
  parts_->loans.clear();
}

void begin_exit() {
  exiting.store(true);
  let_stopped_threads_sleep();
  const auto alive = handles().alive;
  for (const std::weak_ptr<Handle>& one : alive) {
    if (const HandlePtr handle = one.lock()) handle->close();
  }
  const WithoutGil released;
  std::unique_lock lock(handles().mutex);
  handles().destroyed.wait(lock, [] { return handles().being_destroyed == 0; });
}

bool is_exiting() { return exiting.load(); }

}  // namespace lockstep::python
