// Jobs on elements in a wire format, compared with the reference, at any place in memory.
#include "core/kernels/coding.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "core/kernels/checksum.h"
#include "core/kernels/formats/reference.h"
#include "core/kernels/run_job.h"
#include "tests/support/every_target.h"
#include "tests/support/formats.h"

namespace lockstep {
namespace {

using reference::Bytes;
using Values = reference::Floats;
using test::bytes_of;
using test::kAllFormats;

// Counts around the size of a job's parts.
constexpr std::size_t kCounts[] = {0, 1, 255, 257, 4095, 4096, 4097, 9000};

class Coding : public test::EveryTarget {};
LOCKSTEP_ON_EVERY_TARGET(Coding);

// Values whose sums are finite for a few ranks.
Values moderate(std::uint64_t seed, std::size_t count) {
  Values values = test::hostile_floats(seed, count);
  for (float& value : values) {
    if (std::fabs(value) > 1e37F) value = 1e30F;
  }
  return values;
}

TEST_P(Coding, EncodesWeightedContributions) {
  for (const WireFormat format : kAllFormats) {
    for (const std::size_t count : kCounts) {
      for (const float weight : {1.0F, 0.375F, 0.0F}) {
        const Values own = moderate(count, count);
        const EncodeJob job{
            .into = {}, .from = {}, .residual = {}, .count = count, .departs = format, .weight = weight};
        Bytes into(encoded_size(format, count));
        const JobResult result = run_job(job, into, bytes_of(own), {});
        const Bytes expected = reference::encode(format, reference::weighed(weight, own));
        ASSERT_EQ(into, expected) << name_of(format) << " " << count;
        EXPECT_EQ(result.checksum, checksum(expected));
        EXPECT_FALSE(result.not_finite);
      }
    }
  }
}

// Bytes that arrive at the end of a place are recoded to its beginning, as in an operation.
TEST_P(Coding, RecodesFromTheEndOfAPlaceToItsBeginning) {
  for (const WireFormat arrived : kAllFormats) {
    for (const WireFormat departs : kAllFormats) {
      for (const std::size_t count : {std::size_t{2000}, std::size_t{4097}}) {
        for (const float total : {0.0F, 0.75F}) {
          const Values own = moderate(2, count);
          const Bytes from = reference::encode(arrived, moderate(1, count));
          Bytes place(count * sizeof(float));
          const auto incoming = std::span(place).last(from.size());
          std::ranges::copy(from, incoming.begin());
          RecodeJob job;
          job.count = count;
          job.arrived = arrived;
          job.departs = departs;
          job.weight = 0.5F;
          job.total = total;
          job.expected = checksum(from);
          const auto into = std::span(place).first(encoded_size(departs, count));
          const JobResult result = run_job(job, into, incoming, bytes_of(own));
          Values sums = reference::add_weighted(*reference::decode(arrived, from, count), 0.5F, own);
          for (float& sum : sums) sum = total != 0 ? sum / total : sum;
          const Bytes expected = reference::encode(departs, sums);
          ASSERT_TRUE(std::ranges::equal(into, expected)) << name_of(arrived) << " " << name_of(departs);
          EXPECT_TRUE(result.intact);
          EXPECT_FALSE(result.malformed);
          EXPECT_EQ(result.checksum, checksum(expected));
        }
      }
    }
  }
}

// Error feedback: the residual is added to a contribution, and then becomes the error of its encoding.
TEST_P(Coding, TheResidualIsAddedToTheNextContribution) {
  for (const WireFormat format : kAllFormats) {
    for (const std::size_t count : kCounts) {
      for (const float weight : {1.0F, 0.375F}) {
        const Values own = moderate(count, count);
        Values residual = moderate(count + 1, count);
        const Values sum = reference::add_weighted(own, 1, residual);
        const EncodeJob encode{
            .into = {}, .from = {}, .residual = {}, .count = count, .departs = format, .weight = weight};
        Bytes into(encoded_size(format, count));
        const auto left = std::as_writable_bytes(std::span(residual));
        run_job(encode, into, bytes_of(own), {}, left);
        ASSERT_EQ(into, reference::encode(format, reference::weighed(weight, sum))) << name_of(format) << " " << count;
        const UpdateResidualJob update{.from = {}, .residual = {}, .count = count, .departs = format, .weight = weight};
        run_job(update, {}, bytes_of(own), {}, left);
        const Values expected = reference::left_of(format, weight, sum);
        ASSERT_TRUE(std::ranges::equal(bytes_of(residual), bytes_of(expected))) << name_of(format) << " " << count;
      }
    }
  }
}

TEST_P(Coding, AnOwnerAddsItsResidual) {
  constexpr std::size_t kCount = 5000;
  const Bytes from = reference::encode(WireFormat::kInt4, moderate(1, kCount));
  const Values own = moderate(2, kCount);
  Values residual = moderate(3, kCount);
  GatherJob job;
  job.count = kCount;
  job.arrived = WireFormat::kInt4;
  job.departs = WireFormat::kInt8;
  job.weight = 0.5F;
  const Values sums = reference::add_weighted(*reference::decode(WireFormat::kInt4, from, kCount), 0.5F,
                                              reference::add_weighted(own, 1, residual));
  Bytes into(encoded_size(WireFormat::kInt8, kCount));
  run_job(job, into, from, bytes_of(own), std::as_writable_bytes(std::span(residual)));
  EXPECT_EQ(into, reference::encode(WireFormat::kInt8, sums));
}

TEST_P(Coding, NamesTheFirstResidualElementThatIsNotFinite) {
  const Values own(5000, 1.0F);
  Values residual(5000, 0.0F);
  residual[4444] = std::numeric_limits<float>::quiet_NaN();
  const auto left = std::as_writable_bytes(std::span(residual));
  EncodeJob encode;
  encode.count = own.size();
  encode.departs = WireFormat::kInt4;
  Bytes into(encoded_size(WireFormat::kInt4, own.size()));
  EXPECT_EQ(run_job(encode, into, bytes_of(own), {}, left).not_finite, 4444U);
  GatherJob gather;
  gather.count = own.size();
  gather.arrived = gather.departs = WireFormat::kInt4;
  const Bytes from = reference::encode(WireFormat::kInt4, own);
  EXPECT_EQ(run_job(gather, into, from, bytes_of(own), left).not_finite, 4444U);
  gather.weight = 0;  // the contribution does not count
  EXPECT_FALSE(run_job(gather, into, from, bytes_of(own), left).not_finite);
}

TEST_P(Coding, GathersConsecutiveContributions) {
  for (const WireFormat arrived : kAllFormats) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{100}, std::size_t{9001}}) {
      for (const std::size_t others : {std::size_t{1}, std::size_t{3}}) {
        Bytes from;
        Values sums;
        for (std::size_t i = 0; i < others; ++i) {
          const Bytes each = reference::encode(arrived, moderate(i, count));
          from.insert(from.end(), each.begin(), each.end());
          const Values came = *reference::decode(arrived, each, count);
          sums = i == 0 ? came : reference::add_weighted(std::move(sums), 1, came);
        }
        const Values own = moderate(7, count);
        sums = reference::add_weighted(std::move(sums), 0.5F, own);
        for (float& sum : sums) sum /= 3;
        GatherJob job;
        job.count = count;
        job.arrived = arrived;
        job.departs = WireFormat::kInt8;
        job.weight = 0.5F;
        job.total = 3;
        Bytes into(encoded_size(WireFormat::kInt8, count));
        const JobResult result = run_job(job, into, from, bytes_of(own));
        const Bytes expected = reference::encode(WireFormat::kInt8, sums);
        ASSERT_EQ(into, expected) << name_of(arrived) << " " << count << " from " << others;
        EXPECT_EQ(result.checksum, checksum(expected));
        EXPECT_FALSE(result.not_finite);
      }
    }
  }
}

TEST_P(Coding, DecodesInPlace) {
  for (const WireFormat format : kAllFormats) {
    for (const std::size_t count : kCounts) {
      const Bytes encoded = reference::encode(format, moderate(3, count));
      Bytes place(std::max(count * sizeof(float), encoded.size()));
      std::ranges::copy(encoded, place.begin());
      if (encoded.size() > count * sizeof(float)) continue;  // such a chunk travels as it is
      run_job(DecodeJob{.into = {}, .from = {}, .count = count, .arrived = format},
              std::span(place).first(count * sizeof(float)), std::span(place).first(encoded.size()), {});
      const Values expected = *reference::decode(format, encoded, count);
      EXPECT_TRUE(std::ranges::equal(place, bytes_of(expected))) << name_of(format) << " " << count;
    }
  }
}

TEST(CodingJobs, DistinguishDamagedBytesFromInvalidEncodings) {
  constexpr std::size_t kCount = 9000;
  const Values own(kCount, 1.0F);
  for (const WireFormat format : kAllFormats) {
    SCOPED_TRACE(name_of(format));
    const Bytes sound = reference::encode(format, own);
    Bytes malformed = sound;
    std::ranges::fill(malformed, std::byte{0xff});
    const auto tell_apart = [&](auto job, std::span<std::byte> into) {
      job.count = kCount;
      job.arrived = format;
      job.expected = checksum(sound);
      const JobResult good = run_job(job, into, sound, bytes_of(own));
      EXPECT_TRUE(good.intact);
      EXPECT_FALSE(good.malformed);
      EXPECT_FALSE(run_job(job, into, malformed, bytes_of(own)).intact);
      job.expected = checksum(malformed);
      const JobResult bad = run_job(job, into, malformed, bytes_of(own));
      EXPECT_TRUE(bad.intact);
      EXPECT_TRUE(bad.malformed);
      return good.checksum;
    };
    Bytes into(kCount * sizeof(float));
    tell_apart(RecodeJob{}, into);
    EXPECT_EQ(tell_apart(CheckJob{}, {}), checksum(sound));
  }
}

// Their input was verified before. The memory may have changed since.
TEST(CodingJobs, ReportAnInputThatIsNoEncodingAnyMore) {
  constexpr std::size_t kCount = 9000;
  const Values own(kCount, 1.0F);
  for (const WireFormat format : kAllFormats) {
    SCOPED_TRACE(name_of(format));
    Bytes both = reference::encode(format, own);
    const std::size_t each = both.size();
    both.insert(both.end(), both.begin(), both.begin() + static_cast<std::ptrdiff_t>(each));
    Bytes into(kCount * sizeof(float));
    const GatherJob gather{.into = {}, .from = {}, .own = {}, .residual = {}, .count = kCount, .arrived = format};
    const DecodeJob decode{.into = {}, .from = {}, .count = kCount, .arrived = format};
    EXPECT_FALSE(run_job(gather, into, both, bytes_of(own), {}).malformed);
    EXPECT_FALSE(run_job(decode, into, std::span(both).first(each), {}).malformed);
    std::ranges::fill(std::span(both).last(each), std::byte{0xff});
    EXPECT_TRUE(run_job(gather, into, both, bytes_of(own), {}).malformed);
    EXPECT_TRUE(run_job(decode, into, std::span(both).last(each), {}).malformed);
  }
}

TEST(CodingJobs, NameTheFirstElementThatIsNotFinite) {
  constexpr std::size_t kCount = 9000;
  constexpr std::size_t kWhere = 5001;
  for (const float odd : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    Values own(kCount, 1.0F);
    own[kWhere] = own[kWhere + 1] = odd;
    Bytes into(kCount * sizeof(float));
    EncodeJob encode;
    encode.count = kCount;
    encode.departs = WireFormat::kInt8;
    EXPECT_EQ(
        run_job(encode, std::span(into).first(encoded_size(WireFormat::kInt8, kCount)), bytes_of(own), {}).not_finite,
        kWhere);
    encode.weight = 0;
    EXPECT_FALSE(
        run_job(encode, std::span(into).first(encoded_size(WireFormat::kInt8, kCount)), bytes_of(own), {}).not_finite);
    const Bytes from = reference::encode(WireFormat::kInt8, Values(kCount, 2.0F));
    RecodeJob recode;
    recode.count = kCount;
    recode.arrived = WireFormat::kInt8;
    recode.expected = checksum(from);
    const JobResult result = run_job(recode, into, from, bytes_of(own));
    EXPECT_TRUE(result.intact);
    EXPECT_EQ(result.not_finite, kWhere);
  }
}

TEST(CodingJobs, ASumBeyondTheLargestF32IsNotFinite) {
  constexpr std::size_t kCount = 300;
  Values own(kCount, 1.0F);
  own[299] = std::numeric_limits<float>::max();
  const Bytes from = reference::encode(WireFormat::kBF16, own);
  Bytes into(encoded_size(WireFormat::kBF16, kCount));
  RecodeJob recode;
  recode.count = kCount;
  recode.arrived = recode.departs = WireFormat::kBF16;
  recode.expected = checksum(from);
  EXPECT_EQ(run_job(recode, into, from, bytes_of(own)).not_finite, 299U);
  GatherJob gather;
  gather.count = kCount;
  gather.arrived = gather.departs = WireFormat::kBF16;
  EXPECT_EQ(run_job(gather, into, from, bytes_of(own)).not_finite, 299U);
}

}  // namespace
}  // namespace lockstep
