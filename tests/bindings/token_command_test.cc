// `lockstep token` from a shell.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include <nlohmann/json.hpp>

#include "core/wire/run_token.h"
#include "tests/support/shell.h"
#include "tests/transport/temporary_folder.h"
#include "transport/token_file.h"
#include "transport/utc_time.h"

namespace lockstep::cli {
namespace {

using lockstep::testing::Ran;
using ::testing::HasSubstr;
using ::testing::Not;
using transport::TokenFile;

struct TokenCommand : ::testing::Test {
  void SetUp() override { make_file({}); }

  // A token file as the coordinator creates it.
  void make_file(std::vector<std::string> addresses) {
    std::filesystem::remove(path);
    TokenFile file;
    file.private_key = "PEM";
    file.key_digest.bytes.fill(0x5a);
    file.addresses = std::move(addresses);
    ASSERT_TRUE(transport::load_or_create_token_file(path, [&] { return Result<TokenFile>(file); }).ok());
  }
  // lockstep token WORDS --tokens FILE MORE
  [[nodiscard]] Ran token(const std::string& words, const std::string& more = "", const std::string& errors = "2>&1") {
    return lockstep::testing::run_in_shell(LOCKSTEP_CLI " token " + words + " --tokens " + path + " " + more, errors);
  }
  // Makes a token, and returns it.
  wire::RunToken make(const std::string& more) {
    const Ran ran = token("new", more);
    EXPECT_EQ(ran.code, 0) << ran.text;
    const auto made = wire::parse_run_token(ran.text);
    EXPECT_TRUE(made.ok()) << ran.text;
    return made ? *made : wire::RunToken{};
  }
  [[nodiscard]] TokenFile load() const { return *transport::load_token_file(path); }

  transport::TemporaryFolder folder;
  std::string path = folder / "run.tokens";
};

TEST_F(TokenCommand, NewPrintsOneLineThatIsTheToken) {
  const Ran ran = token("new", "--address host.example:4000", "2>/dev/null");
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.text.find('\n'), ran.text.size() - 1);
  const auto made = wire::parse_run_token(ran.text);
  ASSERT_TRUE(made.ok()) << made.error().text;
  const TokenFile file = load();
  ASSERT_EQ(file.tokens.size(), 1U);
  EXPECT_EQ(*made, transport::run_token(file, file.tokens[0], {"host.example:4000"}));
}

TEST_F(TokenCommand, NewTakesNameRoleExpiryAndPeers) {
  const auto made = make("-a h:1 -a '[::1]:2' --name partner --role observer --expires 7d --peers 3");
  EXPECT_EQ(made.coordinators, (std::vector<std::string>{"h:1", "[::1]:2"}));
  EXPECT_EQ(made.role, io::Role::kObserver);
  EXPECT_LE(made.expires, transport::utc_now() + std::int64_t{7} * 86'400);
  EXPECT_GT(made.expires, transport::utc_now() + std::int64_t{6} * 86'400);
  const auto record = load().tokens.at(0);
  EXPECT_EQ(record.name, "partner");
  EXPECT_EQ(record.max_peers, 3U);
  EXPECT_FALSE(record.single_use);

  EXPECT_EQ(make("-a h:1 --once --expires 2100-01-01T00:00:00Z").expires, transport::utc_of("2100-01-01T00:00:00Z"));
  EXPECT_TRUE(load().tokens.at(1).single_use);
}

TEST_F(TokenCommand, NewUsesTheAddressesOfTheFile) {
  const Ran ran = token("new");
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.text, HasSubstr("give one with --address HOST:PORT"));
  EXPECT_TRUE(load().tokens.empty());
  make_file({"remembered:4000"});
  EXPECT_EQ(make("").coordinators, std::vector<std::string>{"remembered:4000"});
  EXPECT_EQ(make("-a other:1").coordinators, std::vector<std::string>{"other:1"});
}

TEST_F(TokenCommand, WrongUsageChangesNothing) {
  const struct {
    const char* words;
    const char* says;
  } wrong_ones[] = {{"-a host", "bad address 'host'"},
                    {"-a 0.0.0.0:4000", "bad address '0.0.0.0:4000': a program listens there"},
                    {"-a '[::]:4000'", "bad address '[::]:4000': a program listens there"},
                    {"-a h:1 --expires ''", "--expires '' is no time in the future such as 12h, 7d"},
                    {"-a h:1 --expires tomorrow", "--expires 'tomorrow' is no time in the future such as 12h, 7d"},
                    {"-a h:1 --role root", "unknown value 'root'"},
                    {"-a h:1 --peers 0", "--peers"},
                    {"-a h:1 --peers 3 --once", "excludes"},
                    {"-a h:1 --nam x", "unknown option '--nam' of `new`; did you mean '--name'?"},
                    {"-a h:1 lks1_abc", "unknown argument 'lks1_...'"}};
  for (const auto& [words, says] : wrong_ones) {
    const Ran ran = token("new", words);
    EXPECT_EQ(ran.code, 2) << words;
    EXPECT_THAT(ran.text, HasSubstr(says));
  }
  EXPECT_TRUE(load().tokens.empty());
  EXPECT_EQ(token("").code, 2);
  const Ran ran = token("lst");
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.text, HasSubstr("unknown command 'lst'; did you mean 'list'? (one of: new list revoke)"));
}

TEST_F(TokenCommand, AFailureNamesTheFile) {
  make("-a h:1 -n a");
  EXPECT_THAT(token("new", "-a h:1 -n a").text, HasSubstr("has the name 'a': choose another name"));
  std::filesystem::permissions(path, std::filesystem::perms::group_read, std::filesystem::perm_options::add);
  for (const char* words : {"list", "new -a h:1", "revoke a"}) {
    const Ran ran = token(words);
    EXPECT_EQ(ran.code, 1);
    EXPECT_THAT(ran.text, HasSubstr("chmod 600 " + path));
  }
  std::filesystem::remove(path);
  for (const char* words : {"list", "new -a h:1", "revoke a"}) {
    const Ran ran = token(words);
    EXPECT_EQ(ran.code, 1);
    EXPECT_THAT(ran.text, HasSubstr("`lockstep coordinator --tokens " + path + "`"));
  }
  EXPECT_EQ(folder.files(), 0);
}

// A name with a mark of direction would turn the line that shows it around.
TEST_F(TokenCommand, ANameWithInvisibleCharactersIsRefused) {
  for (const std::string mark : {"\u202e", "\u200b", "\u2066"}) {
    const Ran ran = token("new", "-a h:1 -n 'gpu" + mark + "7'");
    EXPECT_EQ(ran.code, 1);
    EXPECT_THAT(ran.text, HasSubstr("without control and invisible characters"));
    EXPECT_THAT(ran.text, Not(HasSubstr(mark)));
    EXPECT_THAT(token("revoke", "'gpu" + mark + "7'").text, Not(HasSubstr(mark)));
  }
  EXPECT_TRUE(load().tokens.empty());
}

TEST_F(TokenCommand, ASecondCoordinatorOfTheFileIsRefused) {
  std::filesystem::remove(path);
  const Ran ran = lockstep::testing::run_in_shell("cd " + (folder / ".") + R"( || exit 4
    )" LOCKSTEP_CLI R"( coordinator --listen 127.0.0.1:0 --tokens run.tokens > said &
    until grep -qs lks1_ said; do kill -0 $! || exit 3; done
    )" LOCKSTEP_CLI R"( coordinator --listen 127.0.0.1:0 --tokens run.tokens 2>&1; code=$?
    kill $!; wait $!
    exit $code)");
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.text, HasSubstr("token file run.tokens: another coordinator uses it: stop that coordinator, or"));
}

TEST_F(TokenCommand, ListShowsNoSecret) {
  EXPECT_THAT(token("list").text, HasSubstr("there are no tokens"));
  EXPECT_EQ(token("list", "--json").text, "[]\n");
  const auto made = make("-a h:1 -n partner --peers 2 --expires 2100-01-01T00:00:00Z");
  const Ran table = token("list");
  EXPECT_EQ(table.code, 0);
  EXPECT_THAT(table.text,
              HasSubstr(wire::name_of(made.id) + "  partner           member    2100-01-01T00:00:00Z  2      valid"));
  const auto json = nlohmann::json::parse(token("list", "--json").text);
  ASSERT_EQ(json.size(), 1U);
  EXPECT_EQ(json[0], (nlohmann::json{{"id", wire::name_of(made.id)},
                                     {"name", "partner"},
                                     {"role", "member"},
                                     {"expires", "2100-01-01T00:00:00Z"},
                                     {"max_peers", 2},
                                     {"single_use", false},
                                     {"state", "valid"}}));
}

TEST_F(TokenCommand, ListShowsATokenThatWasUsed) {
  const auto once = make("-a h:1 -n guest --once");
  ASSERT_FALSE(transport::change_token_file(path, [&](transport::TokenFile& tokens) -> std::optional<Error> {
    transport::use_token(tokens, once.id);
    return std::nullopt;
  }));
  EXPECT_THAT(token("list").text, HasSubstr("once   used"));
  EXPECT_EQ(nlohmann::json::parse(token("list", "--json").text)[0]["state"], "used");
}

// 77: this system writes no core dump into the folder of a process.
TEST_F(TokenCommand, ACoordinatorThatCrashesLeavesNoSecretInACoreDump) {
  const Ran ran = lockstep::testing::run_in_shell("cd " + (folder / ".") + R"( && ulimit -c unlimited || exit 77
    sh -c 'kill -ABRT $$'; ls core* || exit 77
    rm -f core*
    )" LOCKSTEP_CLI R"( coordinator --listen 127.0.0.1:0 --tokens new.tokens > said &
    until grep -q lks1_ said; do kill -0 $! || exit 1; done
    kill -ABRT $!; wait $!
    ls core* && exit 2
    exit 0)");
  if (ran.code == 77) GTEST_SKIP() << "no core dumps here: " << ran.text;
  EXPECT_EQ(ran.code, 0) << wire::redacted(ran.text);
}

TEST_F(TokenCommand, RevokeTakesAnIdANameOrTheToken) {
  const auto one = make("-a h:1 -n one");
  const auto two = make("-a h:1");
  const auto three = make("-a h:1");
  EXPECT_EQ(token("revoke", "one").text, "token " + wire::name_of(one.id) + " (one) is revoked\n");
  EXPECT_EQ(token("revoke", wire::name_of(two.id)).text, "token " + wire::name_of(two.id) + " is revoked\n");
  const Ran by_text = token("revoke", wire::text_of(three));
  EXPECT_EQ(by_text.code, 0);
  EXPECT_THAT(by_text.text, Not(HasSubstr("lks1_")));
  for (const auto& record : load().tokens) EXPECT_TRUE(record.revoked);
  EXPECT_EQ(token("revoke", "one").code, 0);  // already
  const Ran none = token("revoke", "nobody");
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.text, HasSubstr("there is no token 'nobody'"));
  EXPECT_EQ(token("revoke").code, 2);
}

}  // namespace
}  // namespace lockstep::cli
