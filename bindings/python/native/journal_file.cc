#include "bindings/python/native/journal_file.h"

#include <fcntl.h>
#include <pybind11/pybind11.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace lockstep::python {
namespace {

// The last line makes room for the line that says that the file has stopped; a few more, should it be a short one.
constexpr std::size_t kRemembered = 4;

constexpr mode_t kReadAndWrite = 0666;  // without the bits of the umask

}  // namespace

std::string stopped_line(std::string_view line, std::string_view why) {
  constexpr std::string_view kKey = R"("peer":")";  // quotes in a user's text are escaped
  constexpr std::size_t kDigits = 32;
  const std::size_t at = line.find(kKey);
  const std::string_view peer = at == std::string_view::npos ? "" : line.substr(at + kKey.size(), kDigits);
  return R"({"peer":")" + std::string(peer) + R"(","what":"stopped","why":")" + std::string(why) + R"("})";
}

JournalFile::JournalFile(std::string path)
    : path_(std::move(path)), file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kReadAndWrite)) {
  if (file_ >= 0) return;
  PyErr_SetFromErrnoWithFilename(PyExc_OSError, path_.c_str());
  throw pybind11::error_already_set();
}

JournalFile::~JournalFile() { ::close(file_); }

std::optional<std::string> JournalFile::append(std::string_view line) {
  if (stopped_) return std::nullopt;
  const Written written = write(std::string(line) + "\n");
  if (written.begin != end_) begins_.clear();
  if (written.error == 0) {
    if (begins_.size() == kRemembered) begins_.erase(begins_.begin());
    begins_.push_back(written.begin);
    end_ = written.end;
    return std::nullopt;
  }
  stopped_ = true;
  const std::string why = std::error_code(written.error, std::generic_category()).message();
  if (cut(written.begin, written.end)) end_with(stopped_line(line, why) + "\n");
  return path_ + ": " + why;
}

JournalFile::Written JournalFile::write(std::string_view text) {
  Written result{end_, end_, 0};
  bool begun = false;
  while (!text.empty()) {
    const ssize_t count = ::write(file_, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      result.error = count < 0 ? errno : ENOSPC;
      break;
    }
    const off_t now = ::lseek(file_, 0, SEEK_CUR);  // a pipe has no place
    result.end = now < 0 ? result.end + static_cast<std::size_t>(count) : static_cast<std::size_t>(now);
    if (!std::exchange(begun, true)) result.begin = result.end - static_cast<std::size_t>(count);
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return result;
}

bool JournalFile::cut(std::size_t begin, std::size_t end) const {
  if (begin == end) return true;
  struct stat now {};
  return ::fstat(file_, &now) == 0 && static_cast<std::size_t>(now.st_size) == end &&
         ::ftruncate(file_, static_cast<off_t>(begin)) == 0;
}

// Gives up the latest lines until the text fits. If it never fits, the file ends in the middle of a line: that says the
// same to a reader, and a file can always be cut.
void JournalFile::end_with(std::string_view text) {
  for (;;) {
    const Written written = write(text);
    if (written.error == 0 || !cut(written.begin, written.end) || begins_.empty()) return;
    const std::size_t begin = begins_.back();
    const bool is_last = begins_.size() == 1;
    if (!cut(is_last ? begin + 1 : begin, end_) || is_last) return;
    end_ = begin;
    begins_.pop_back();
  }
}

}  // namespace lockstep::python
