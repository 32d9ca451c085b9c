// A run token for one use, and a coordinator that is killed and started again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/wire/run_token.h"
#include "tests/support/process.h"
#include "tests/transport/temporary_folder.h"
#include "transport/communicator.h"
#include "transport/coordinator_server.h"
#include "transport/status_client.h"
#include "transport/token_file.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;
using transport::CoordinatorServer;
using transport::TokenFile;
using transport::TokenRecord;

constexpr Duration kPatience = seconds(30);  // a passing test never waits so long

// Starts a coordinator with this token file when it is told to, and says its port.
int serve_tokens(Parent& parent, const std::string& file) {
  parent.hear();
  CoordinatorServer::Options options;
  options.listen = "127.0.0.1:0";
  options.access.token_file = file;
  const auto server = CoordinatorServer::start(std::move(options));
  if (!server.ok()) return 1;
  parent.say(std::to_string((*server)->address().port));
  while (parent.hear()) {
  }
  return 0;
}

transport::Outcome join_by(const std::string& token) {
  transport::CommunicatorOptions options;
  options.listen_host = "127.0.0.1";
  auto made = transport::Communicator::create(std::move(options));
  EXPECT_TRUE(made.ok()) << made.error().text;
  const transport::Work work = (*made)->connect(token, kPatience);
  work.wait();
  return work.outcome();
}

TEST(UsedToken, ADeadCoordinatorsUsedTokenAdmitsNobodyToTheNextOne) {
  const transport::TemporaryFolder folder;
  const std::string file = folder / "run.tokens";
  const Process::Main main = [&](Parent& parent) { return serve_tokens(parent, file); };
  Process first(main);
  Process second(main);  // forked before there are threads
  const auto start = [&](Process& process) {
    process.say("go");
    const auto port = process.hear(kPatience);
    EXPECT_TRUE(port);
    return "127.0.0.1:" + port.value_or("1");
  };
  const std::string address = start(first);

  TokenRecord once = transport::random_token();
  once.single_use = true;
  ASSERT_FALSE(
      transport::change_token_file(file, [&](TokenFile& tokens) { return transport::add_token(tokens, once); }));
  const auto at = [&](const std::string& where) {
    return wire::text_of(transport::run_token(*transport::load_token_file(file), once, {where}));
  };
  while (!transport::query_status(at(address), kPatience).ok()) {  // the coordinator looks at its file now and then
  }
  const transport::Outcome joined = join_by(at(address));
  first.signal(SIGKILL);
  EXPECT_EQ(joined.status, Status::kOk) << joined.text;
  const TokenRecord kept = transport::load_token_file(file)->tokens.back();
  EXPECT_EQ(transport::name_of(transport::state_of(kept, 0)), "used");

  const transport::Outcome again = join_by(at(start(second)));
  EXPECT_EQ(again.status, Status::kRefused);
  EXPECT_THAT(again.text, HasSubstr("was used"));
}

}  // namespace
}  // namespace lockstep::testing
