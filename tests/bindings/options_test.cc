// Conversion of options from C to the transport.
#include "bindings/c/options.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "bindings/c/result.h"
#include "bindings/c/time_out.h"
#include "core/base/text.h"
#include "core/wire/limits.h"

namespace lockstep::c {
namespace {

// The values in the comments of lockstep_comm_options.
TEST(CommOptions, DefaultsMatchTheHeader) {
  const lockstep_comm_options none = LOCKSTEP_COMM_OPTIONS_INIT;
  for (const lockstep_comm_options* given : {static_cast<const lockstep_comm_options*>(nullptr), &none}) {
    const auto options = communicator_options(given);
    ASSERT_TRUE(options.ok());
    EXPECT_EQ(options->peer.name, "");
    EXPECT_EQ(options->peer.group, GroupId{0});
    EXPECT_EQ(options->peer.gang, GangId{0});
    EXPECT_EQ(options->peer.gang_size, 1U);
    EXPECT_EQ(options->peer.founders, 1U);
    EXPECT_EQ(options->minimum_world, 1U);
    EXPECT_FALSE(options->peer.auto_admit);
    EXPECT_EQ(options->peer.first_port, 0);
    EXPECT_EQ(options->peer.stripes, 2);
    EXPECT_EQ(options->peer.most_stripes, 128) << "where lines lose packets";
    EXPECT_EQ(options->peer.segment_bytes, 0U);
    EXPECT_EQ(options->peer.dial_timeout, milliseconds(5000));
    EXPECT_EQ(options->peer.link_heartbeat, milliseconds(500));
    EXPECT_EQ(options->peer.link_silence, milliseconds(4000));
    EXPECT_EQ(options->peer.link_timeout, milliseconds(8000));
    EXPECT_EQ(options->peer.abort_grace, milliseconds(10000));
    EXPECT_EQ(options->congestion_control, "");
    EXPECT_EQ(options->spin, microseconds(50));
    EXPECT_FALSE(options->log);
    EXPECT_EQ(options->flight_bytes, 0U);
    EXPECT_EQ(options->flight_folder, "");
  }
}

TEST(CommOptions, TheEnvironmentSetsTheDefaultFlightFolder) {
  ::setenv("LOCKSTEP_FLIGHT_FOLDER", "/from/the/environment", 1);
  lockstep_comm_options in = LOCKSTEP_COMM_OPTIONS_INIT;
  EXPECT_EQ(communicator_options(nullptr)->flight_folder, "/from/the/environment");
  EXPECT_EQ(communicator_options(&in)->flight_folder, "/from/the/environment");
  in.flight_folder = "/from/the/program";
  EXPECT_EQ(communicator_options(&in)->flight_folder, "/from/the/program");
  ::unsetenv("LOCKSTEP_FLIGHT_FOLDER");
}

TEST(CommOptions, TheFlightRecorderHasTheRequestedSize) {
  lockstep_comm_options in = LOCKSTEP_COMM_OPTIONS_INIT;
  in.flight_kib = 100;
  EXPECT_EQ(communicator_options(&in)->flight_bytes, 102'400U);
  in.flight_kib = 600'000;
  const auto refused = communicator_options(&in);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().text.find("flight_kib is 600000; allowed: 1 to 524288"), std::string::npos)
      << refused.error().text;
}

TEST(CommOptions, ConvertsEveryField) {
  std::string logged;
  lockstep_comm_options in = LOCKSTEP_COMM_OPTIONS_INIT;
  in.name = "b";
  in.group = 1;
  in.gang = 2;
  in.gang_size = 3;
  in.founders = 4;
  in.minimum_world = 5;
  in.auto_admit = 1;
  in.first_port = 6;
  in.last_port = 7;
  in.listen_host = "::1";
  in.advertise_host = "example.org";
  in.advertise_port = 8;
  in.stripes = 9;
  in.segment_bytes = 16;
  in.bytes_per_second = 77;
  in.dial_timeout_ms = 11;
  in.link_heartbeat_ms = 12;
  in.link_silence_ms = 13;
  in.link_timeout_ms = 14;
  in.abort_grace_ms = 15;
  in.congestion_control = "bbr";
  in.spin_us = 16;
  in.log = [](void* user, const char* line) { *static_cast<std::string*>(user) = line; };
  in.log_user = &logged;
  std::string noted;
  in.journal = [](void* user, const char* line) { *static_cast<std::string*>(user) = line; };
  in.journal_user = &noted;
  const auto out = communicator_options(&in);
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(out->peer.name, "b");
  EXPECT_EQ(out->peer.group, GroupId{1});
  EXPECT_EQ(out->peer.gang, GangId{2});
  EXPECT_EQ(out->peer.gang_size, 3U);
  EXPECT_EQ(out->peer.founders, 4U);
  EXPECT_EQ(out->minimum_world, 5U);
  EXPECT_TRUE(out->peer.auto_admit);
  EXPECT_EQ(out->peer.first_port, 6);
  EXPECT_EQ(out->peer.last_port, 7);
  EXPECT_EQ(out->listen_host, "::1");
  EXPECT_EQ(out->advertised_host, "example.org");
  EXPECT_EQ(out->peer.advertised.port, 8);
  EXPECT_EQ(out->peer.stripes, 9);
  EXPECT_EQ(out->peer.most_stripes, 0) << "always as many as the caller says";
  EXPECT_EQ(out->peer.segment_bytes, 16U);
  EXPECT_EQ(out->peer.sending.bytes_per_second, 77U);
  EXPECT_EQ(out->peer.dial_timeout, milliseconds(11));
  EXPECT_EQ(out->peer.link_heartbeat, milliseconds(12));
  EXPECT_EQ(out->peer.link_silence, milliseconds(13));
  EXPECT_EQ(out->peer.link_timeout, milliseconds(14));
  EXPECT_EQ(out->peer.abort_grace, milliseconds(15));
  EXPECT_EQ(out->congestion_control, "bbr");
  EXPECT_EQ(out->spin, microseconds(16));
  out->log(std::string_view("one line of many", 8));
  EXPECT_EQ(logged, "one line");
  out->journal("{}");
  EXPECT_EQ(noted, "{}");
}

TEST(CommOptions, NoSpinIsNotTheDefault) {
  lockstep_comm_options in = LOCKSTEP_COMM_OPTIONS_INIT;
  EXPECT_EQ(communicator_options(&in)->spin, transport::CommunicatorOptions{}.spin);
  in.spin_us = LOCKSTEP_NO_SPIN;
  EXPECT_EQ(communicator_options(&in)->spin, Duration{0});
  in.spin_us = 10'001;
  const auto refused = communicator_options(&in);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().text, "options.spin_us is 10001; allowed: 1 to 10000, or 0 for the default");
}

TEST(TimeOuts, ForeverMeansNoTimeout) {
  EXPECT_EQ(*call_time_out(LOCKSTEP_FOREVER, "t"), Duration{0});
  EXPECT_EQ(*field_time_out(LOCKSTEP_FOREVER, "t"), Duration{0});
  EXPECT_EQ(*field_time_out(0, "t"), milliseconds(LOCKSTEP_DEFAULT_TIMEOUT_MS));
  EXPECT_EQ(*wait_time_out(LOCKSTEP_FOREVER, "t"), std::nullopt);
  EXPECT_EQ(*wait_time_out(0, "t"), Duration{0});
}

TEST(TimeOuts, AreMilliseconds) {
  EXPECT_EQ(*call_time_out(1500, "t"), milliseconds(1500));
  EXPECT_EQ(*field_time_out(1500, "t"), milliseconds(1500));
  EXPECT_EQ(*wait_time_out(1500, "t"), milliseconds(1500));
}

TEST(TimeOuts, LongerThanACenturyMeansNone) {
  EXPECT_EQ(*call_time_out(INT64_MAX, "t"), Duration{0});
  EXPECT_EQ(*wait_time_out(INT64_MAX, "t"), std::nullopt);
}

TEST(PeerIds, PrintTheHighHalfFirst) {
  const PeerId id{0x0123456789abcdef, 0x1122334455667788};
  const lockstep_peer_id text = to_c(id);
  EXPECT_EQ(text.bytes[0], 0x01);
  EXPECT_EQ(text.bytes[7], 0xef);
  EXPECT_EQ(text.bytes[15], 0x88);
  EXPECT_EQ(from_c(text), id);
}

TEST(CommOptions, APeerWithoutANameIsNamedByItsHostAndProcess) {
  const std::string name = default_name();
  EXPECT_TRUE(name.ends_with("[" + std::to_string(::getpid()) + "]")) << name;
  EXPECT_FALSE(name.starts_with("[")) << name;
  EXPECT_LE(name.size(), kMaxNameBytes);
  EXPECT_TRUE(is_plain(name)) << name;
}

}  // namespace
}  // namespace lockstep::c
