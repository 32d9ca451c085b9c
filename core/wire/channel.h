// One stream with its reader, its writer and its two loans. Turns what reader and writer need into Read and Write
// effects, one of each at a time, and tracks what the driver holds. Used by both machines.
#pragma once

#include <array>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/io/stream.h"
#include "core/wire/link_reader.h"
#include "core/wire/link_writer.h"
#include "core/wire/progress.h"

namespace lockstep::wire {

class Channel {
 public:
  Channel(StreamId stream, Instant now) : stream_(stream), progress_(now) {}

  LinkReader reader;
  LinkWriter writer;

  [[nodiscard]] StreamId stream() const { return stream_; }
  // How its bytes come.
  [[nodiscard]] const Progress& progress() {
    progress_.settle(reader.frames());
    return progress_;
  }
  // At a look of its machine's timer (rule 51).
  [[nodiscard]] bool is_nearly_dead(Instant now, Duration beat, Duration limit) {
    progress_.settle(reader.frames());
    return progress_.is_nearly_dead(now, beat, limit);
  }
  void forgive_silence(Instant now) { progress_.forgive(now); }
  void waited(Instant now) { progress_.waited(now); }
  [[nodiscard]] Progress::Busy take_busy() { return progress_.take_busy(); }
  // Close was requested; only Closed can still come.
  [[nodiscard]] bool closing() const { return closing_; }
  // finish() was called: the channel reads and queues nothing more.
  [[nodiscard]] bool finishing() const { return finishing_ || closing_; }
  [[nodiscard]] bool read_lent() const { return loans_[kRead].lent; }

  void read_done(std::size_t bytes, Instant now) {
    end_loan(kRead);
    if (bytes > 0) progress_.came(bytes, reader.frames(), reader.in_segment(), now);
    reader.landed(bytes);
  }

  void write_done(std::size_t bytes) {
    end_loan(kWrite);
    writer.written(bytes);
  }

  void revoked(io::Direction direction, std::size_t bytes, Instant now) {
    Loan& loan = loans_[direction == io::Direction::kRead ? kRead : kWrite];
    LOCKSTEP_ASSERT(loan.revoking && (loan.lent || bytes == 0));
    loan.revoking = false;
    if (!loan.lent) return;  // the answer and our request crossed
    if (direction == io::Direction::kRead) {
      read_done(bytes, now);
    } else {
      write_done(bytes);
    }
  }

  // Requests the end of a loan, once per loan. Returns false if nothing is lent, so there is nothing to wait for.
  template <typename Effects>
  bool revoke(io::Direction direction, Effects& out) {
    Loan& loan = loans_[direction == io::Direction::kRead ? kRead : kWrite];
    if (!loan.lent) return false;
    if (!loan.revoking && !closing_) {
      loan.revoking = true;
      out.emplace_back(io::Revoke{stream_, direction});
    }
    return true;
  }

  // Lends memory again where it is needed and not lent. Call it after all events of the reader were taken.
  template <typename Effects>
  void pump(Effects& out) {
    const bool idle = loans_[kRead].lent && !writer.wants_write() && !finishing_;
    if (idle || closing_) return;
    lend_read(out);
    lend_write(out);
  }
  // Lends memory for reading only; queued writes may wait.
  template <typename Effects>
  void pump_reads(Effects& out) {
    if (!closing_) lend_read(out);
  }

  // Closes the stream at once.
  template <typename Effects>
  void close(Effects& out) {
    if (closing_) return;
    closing_ = true;
    out.emplace_back(io::Close{stream_, false});
  }

  // Closes the stream in order after everything queued was written. The owner limits the time that this takes.
  template <typename Effects>
  void finish(Effects& out) {
    finishing_ = true;
    pump(out);
  }

  // Call it after the state was loaded: the memory lent for reading has another address now.
  template <typename Effects>
  void lend_again(Effects& out) const {
    if (closing_ || !reader.lent()) return;
    out.emplace_back(io::Read{stream_, reader.lent()->place, reader.lent()->tail});
  }
  [[nodiscard]] std::size_t memory() const { return reader.memory() + writer.memory(); }
  // The state that a recording begins with (core/flight/); defined in wire/state.h.
  template <typename Archive>
  void archive(Archive& a);

 private:
  static constexpr std::size_t kRead = 0;
  static constexpr std::size_t kWrite = 1;
  struct Loan {
    bool lent = false;
    bool revoking = false;
    template <typename Archive>
    void archive(Archive& a) {
      a.all(lent, revoking);
    }
  };

  template <typename Effects>
  void lend_read(Effects& out) {
    Loan& read = loans_[kRead];
    if (!read.lent && !read.revoking && !finishing_ && !reader.awaits_place()) {
      const LinkReader::Window window = reader.window();
      read.lent = true;
      out.emplace_back(io::Read{stream_, window.place, window.tail});
    }
  }

  template <typename Effects>
  void lend_write(Effects& out) {
    Loan& write = loans_[kWrite];
    if (!write.lent && !write.revoking && writer.wants_write()) {
      write.lent = true;
      out.emplace_back(io::Write{stream_, writer.begin_write()});
    }
    if (finishing_ && !write.lent && !writer.wants_write()) {
      closing_ = true;
      out.emplace_back(io::Close{stream_, true});
    }
  }

  void end_loan(std::size_t which) {
    LOCKSTEP_ASSERT(loans_[which].lent);
    loans_[which].lent = false;
  }

  StreamId stream_;
  Progress progress_;
  std::array<Loan, 2> loans_{};
  bool finishing_ = false;
  bool closing_ = false;
};

}  // namespace lockstep::wire
