#include "sim/plan/work.h"

#include <algorithm>
#include <optional>

#include "sim/words/nearest.h"
#include "sim/words/units.h"
#include "sim/words/words.h"

namespace lockstep::sim {
namespace {

using wire::Collective;

constexpr std::uint64_t kMostTimes = 64;

Error wrong(const std::string& text) { return {Status::kInvalidArgument, text}; }

// "int8/bf16".
std::optional<Formats> formats_of(std::string_view word) {
  const std::size_t slash = word.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const auto up = wire_format_named(word.substr(0, slash));
  const auto down = wire_format_named(word.substr(slash + 1));
  if (!up || !down) return std::nullopt;
  return Formats{*up, *down};
}

}  // namespace

std::string to_text(Formats formats) {
  return std::string(name_of(formats.up)).append("/").append(name_of(formats.down));
}

std::string to_text(const Work& work) {
  std::string text(name_of(work.collective));
  if (work.collective == Collective::kBarrier) return text;
  text += " " + std::to_string(work.count) + " ";
  text += name_of(work.type);
  text += ' ';
  text += name_of(work.op);
  if (!work.formats.native()) text += " " + to_text(work.formats);
  if (work.algorithm) text.append(" ").append(name_of(*work.algorithm));
  return text;
}

ring::Request request_of(const Work& work) {
  ring::Request request;
  request.collective = work.collective;
  request.type = work.type;
  request.op = work.op;
  request.formats = work.formats;
  request.algorithm = work.algorithm;
  return request;
}

Result<std::vector<Work>> work_from_text(std::string_view text) {
  std::vector<std::string> words = split_words(text);
  std::uint64_t times = 1;
  if (!words.empty() && words.front().ends_with('x')) {
    const auto number = number_of(std::string_view(words.front()).substr(0, words.front().size() - 1));
    if (number) {
      times = *number;
      words.erase(words.begin());
    }
  }
  if (times < 1 || times > kMostTimes) return wrong("a collective can be repeated 1x to 64x");
  if (words.empty()) return wrong("a collective is missing, such as \"all_reduce 64KiB f32 sum\"");
  Work work;
  std::vector<std::string> names;
  for (const Collective one : kWorkCollectives) names.emplace_back(name_of(one));
  const auto collective =
      std::ranges::find(kWorkCollectives, words.front(), [](Collective one) { return name_of(one); });
  if (collective == std::end(kWorkCollectives))
    return wrong("unknown collective '" + words.front() + "'" + did_you_mean(words.front(), names));
  work.collective = *collective;
  bool counted = work.collective == Collective::kBarrier;
  std::optional<std::uint64_t> bytes;
  std::vector<std::string> vocabulary;
  for (std::uint8_t i = 0; i < kDataTypeCount; ++i) vocabulary.emplace_back(name_of(static_cast<DataType>(i)));
  for (const std::string_view name : kWireFormatNames) vocabulary.push_back(std::string(name).append("/").append(name));
  for (std::uint8_t i = 0; i < wire::kAlgorithmCount; ++i)
    vocabulary.emplace_back(name_of(static_cast<wire::Algorithm>(i)));
  for (std::uint8_t i = 0; i < kReduceOpCount; ++i) vocabulary.emplace_back(name_of(static_cast<ReduceOp>(i)));
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (work.collective == Collective::kBarrier) return wrong("a barrier has no '" + words[i] + "'");
    const std::string& word = words[i];
    if (const auto type = named<DataType>(word, kDataTypeCount)) {
      work.type = *type;
    } else if (const auto op = named<ReduceOp>(word, kReduceOpCount)) {
      work.op = *op;
    } else if (const auto algorithm = named<wire::Algorithm>(word, wire::kAlgorithmCount)) {
      work.algorithm = *algorithm;
    } else if (const auto formats = formats_of(word)) {
      work.formats = *formats;
    } else if (const auto count = number_of(word)) {
      work.count = *count;
      counted = true;
    } else if (const auto size = bytes_of(word)) {
      bytes = size;
      counted = true;
    } else {
      return wrong("'" + word + "' is no size, type, operation, algorithm or pair of wire formats" +
                   did_you_mean(word, vocabulary));
    }
  }
  if (auto error = ring::validate_reduction(request_of(work))) return wrong(*error);
  if (auto flaw = ring::validate_encoding(request_of(work))) return wrong(*flaw);
  if (!counted) return wrong("how much? Give elements or a size, such as \"all_reduce 64KiB\"");
  if (bytes) {
    if (*bytes % size_of(work.type) != 0) {
      return wrong(std::to_string(*bytes) + " bytes are no whole elements of " + std::string(name_of(work.type)));
    }
    work.count = *bytes / size_of(work.type);
  }
  return std::vector<Work>(times, work);
}

}  // namespace lockstep::sim
