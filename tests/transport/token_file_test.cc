// The file of the coordinator's secrets: it is private, it is checked, and a change is never lost or half done.
#include "transport/token_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/transport/temporary_folder.h"
#include "transport/utc_time.h"

namespace lockstep::transport {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

TokenRecord token_of(std::uint64_t id, const std::string& name) {
  TokenRecord token;
  token.id = {id};
  token.secret.fill(static_cast<std::uint8_t>(0xa0 + id));
  token.name = name;
  return token;
}

TokenFile sample() {
  TokenFile file;
  file.private_key = "-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----\n";
  file.key_digest.bytes.fill(0x5a);
  file.addresses = {"coordinator.example:4000"};
  file.tokens = {token_of(1, "a"), token_of(2, "")};
  file.tokens[1].role = io::Role::kObserver;
  file.tokens[1].expires = *utc_of("2026-12-31T00:00:00Z");
  file.tokens[1].max_peers = 3;
  file.tokens[1].single_use = true;
  file.tokens[1].used = true;
  file.tokens[1].revoked = true;
  return file;
}

struct TokenFiles : ::testing::Test {
  void write(const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
    fs::permissions(path, kOwnerOnly);
  }
  std::string load_error() {
    const auto loaded = load_token_file(path);
    return loaded ? "it was loaded" : loaded.error().text;
  }

  TemporaryFolder folder;
  std::string path = folder / "tokens.json";
};

// The error of the sample with one part replaced.
std::string error_with(const std::string& part, const std::string& other) {
  std::string text = text_of(sample());
  const auto at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  const auto parsed = parse_token_file(text.replace(at, part.size(), other));
  if (parsed) return "it is good";
  EXPECT_THAT(parsed.error().text, Not(HasSubstr("a1a1a1")));  // no secret
  return parsed.error().text;
}

TEST_F(TokenFiles, AFileSurvivesItsText) {
  const auto parsed = parse_token_file(text_of(sample()));
  ASSERT_TRUE(parsed.ok()) << parsed.error().text;
  EXPECT_EQ(*parsed, sample());
}

TEST_F(TokenFiles, TheTextIsAsDocumented) {
  const std::string text = text_of(sample());
  for (const char* part : {R"("version": 1)", R"("id": "0000000000000002")", R"("role": "observer")",
                           R"("expires": "2026-12-31T00:00:00Z")", R"("expires": null)", R"("max_peers": 3)",
                           R"("secret": "a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1")"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST_F(TokenFiles, AFaultIsNamedWithItsPlace) {
  EXPECT_EQ(error_with(R"("version": 1)", R"("version": 2)"),
            "it was written by a newer release of Lockstep: upgrade this one");
  EXPECT_EQ(error_with(R"("version": 1,)", ""), R"(there is no field "version")");
  EXPECT_EQ(error_with(R"("version": 1)", R"("version": 1, "more": 1)"), R"(there is an unknown field "more")");
  EXPECT_EQ(error_with(R"("private_key")", R"("key")"), R"(there is no field "private_key")");
  EXPECT_EQ(error_with(R"(5a5a",)", R"(5a5",)"), R"("key_digest" has not 64 of the digits 0 to 9 and a to f)");
  EXPECT_THAT(error_with("coordinator.example:4000", "coordinator.example"), HasSubstr(R"("addresses": bad address)"));
  EXPECT_EQ(error_with("000000000002", "000000000001"), "two tokens have the id 0000000000000001");
  EXPECT_EQ(error_with("000000000002", "00000000000G"), R"(token 2: "id" has not 16 of the digits 0 to 9 and a to f)");
  EXPECT_EQ(error_with("000000000002", "000000000000"), R"(token 2: "id" is 0)");
  EXPECT_THAT(error_with("a1a1\"", "a1a\""), HasSubstr(R"(token 1: "secret" has not 32)"));
  EXPECT_EQ(error_with("observer", "root"), R"(token 2: "role" is none of "member", "observer" and "admin")");
  EXPECT_THAT(error_with("2026-12-31T", "2026-02-31T"), HasSubstr(R"(token 2: "expires" is neither)"));
  EXPECT_THAT(error_with(R"("max_peers": 3)", R"("max_peers": -3)"), HasSubstr(R"(token 2: "max_peers" is neither)"));
  EXPECT_THAT(error_with(R"("max_peers": 3)", R"("max_peers": 1025)"), HasSubstr("a number from 1 to 1024"));
  EXPECT_THAT(error_with(R"("single_use": false)", R"("single_use": 0)"), HasSubstr(R"("single_use" is neither true)"));
  EXPECT_THAT(error_with(R"("name": "a")", R"("name": "\n")"), HasSubstr(R"(token 1: "name" is no plain text)"));
  EXPECT_EQ(error_with(R"("name": "a")", R"("name": "a", "nmae": 1)"), R"(token 1: there is an unknown field "nmae")");
}

TEST_F(TokenFiles, TextThatIsNoJsonIsRefusedWithoutQuotingIt) {
  EXPECT_EQ(parse_token_file("").error().text, "it is no JSON: line 1, column 1");
  EXPECT_EQ(parse_token_file("{\n  \"secret\": a1a1a1").error().text, "it is no JSON: line 2, column 13");
  EXPECT_EQ(parse_token_file("[]").error().text, "it is no object");
  EXPECT_FALSE(parse_token_file("{\"version\": 1e999}").ok());
  const std::string text = text_of(sample());
  for (std::size_t length = 0; length < text.size() - 2; length += 7) {
    const auto parsed = parse_token_file(text.substr(0, length));
    ASSERT_FALSE(parsed.ok()) << length;
    EXPECT_THAT(parsed.error().text, Not(HasSubstr("a1a1a1")));
  }
}

TEST_F(TokenFiles, IsCreatedOnce) {
  const auto make = [] { return Result<TokenFile>(sample()); };
  const auto created = load_or_create_token_file(path, make);
  ASSERT_TRUE(created.ok()) << created.error().text;
  EXPECT_EQ(*created, sample());
  EXPECT_EQ(mode_of(path), kOwnerOnly);
  const auto again = load_or_create_token_file(path, []() -> Result<TokenFile> { return Error{}; });
  ASSERT_TRUE(again.ok()) << again.error().text;
  EXPECT_EQ(*again, sample());
  EXPECT_EQ(folder.files(), 1);
}

TEST_F(TokenFiles, AllThatCreateAtTheSameTimeLoadTheSameKey) {
  std::vector<std::string> keys(8);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      threads.emplace_back([&, i] {
        TokenFile own = sample();
        own.private_key = std::to_string(i);
        const auto loaded = load_or_create_token_file(path, [&] { return Result<TokenFile>(own); });
        if (loaded) keys[i] = loaded->private_key;
      });
    }
  }
  EXPECT_NE(keys[0], "");
  for (const std::string& key : keys) EXPECT_EQ(key, keys[0]);
  EXPECT_EQ(folder.files(), 1);
}

TEST_F(TokenFiles, AFileThatOthersCanReadIsRefused) {
  write(text_of(sample()));
  for (const auto mode :
       {fs::perms::group_read, fs::perms::group_write, fs::perms::others_read, fs::perms::others_write}) {
    fs::permissions(path, kOwnerOnly | mode);
    EXPECT_THAT(load_error(), HasSubstr("chmod 600 " + path));
    const auto changed = change_token_file(path, [](TokenFile&) { return std::optional<Error>(); });
    ASSERT_TRUE(changed);
    EXPECT_THAT(changed->text, HasSubstr("chmod 600 " + path));
  }
  fs::permissions(path, fs::perms::owner_read);
  EXPECT_TRUE(load_token_file(path).ok());
}

TEST_F(TokenFiles, AnErrorNamesTheFile) {
  EXPECT_THAT(load_error(), HasSubstr("there is no such file. The coordinator creates it: `lockstep coordinator "
                                      "--tokens " +
                                      path + "`"));
  write("{");
  EXPECT_EQ(load_error(), "token file " + path + ": it is no JSON: line 1, column 2");
  EXPECT_THAT(load_token_file(path + "/below").error().text, HasSubstr("Not a directory"));
  fs::remove(path);
  fs::create_directory(path);
  fs::permissions(path, fs::perms::owner_all);
  EXPECT_THAT(load_error(), HasSubstr("no regular file"));
}

TEST_F(TokenFiles, AChangeIsSavedUnlessItIsRefused) {
  write(text_of(sample()));
  const auto refused = change_token_file(path, [](TokenFile& file) -> std::optional<Error> {
    file.tokens.clear();
    return Error{Status::kInvalidArgument, "no"};
  });
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->text, "no");
  EXPECT_EQ(*load_token_file(path), sample());

  EXPECT_FALSE(change_token_file(path, [](TokenFile& file) { return add_token(file, token_of(3, "c")); }));
  const auto loaded = load_token_file(path);
  ASSERT_TRUE(loaded.ok()) << loaded.error().text;
  EXPECT_EQ(loaded->tokens.size(), 3U);
  EXPECT_EQ(loaded->tokens[2], token_of(3, "c"));
  EXPECT_EQ(mode_of(path), kOwnerOnly);
  EXPECT_EQ(folder.files(), 1);
}

TEST_F(TokenFiles, AChangeThatChangesNothingDoesNotTouchTheFile) {
  write(text_of(sample()) + "\n");  // as no save would write it
  EXPECT_FALSE(change_token_file(path, [](TokenFile&) { return std::optional<Error>(); }));
  EXPECT_EQ(contents_of(path), text_of(sample()) + "\n");
}

TEST_F(TokenFiles, ALinkStaysALink) {
  write(text_of(sample()));
  const std::string link = folder / "link";
  fs::create_symlink(path, link);
  EXPECT_FALSE(change_token_file(link, [](TokenFile& file) { return add_token(file, token_of(3, "c")); }));
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(load_token_file(path)->tokens.size(), 3U);
}

TEST_F(TokenFiles, AFileThatDoesNotSayWhatWasUsedIsGood) {
  std::string text = text_of(sample());
  const std::string line = "      \"used\": true,\n";
  ASSERT_NE(text.find(line), std::string::npos) << text;
  text.erase(text.find(line), line.size());
  const auto parsed = parse_token_file(text);
  ASSERT_TRUE(parsed.ok()) << parsed.error().text;
  EXPECT_FALSE(parsed->tokens[1].used);
}

TEST_F(TokenFiles, AChangeThatMayNotWaitFailsWhileAnotherHoldsTheFile) {
  write(text_of(sample()));
  std::optional<Error> inner;
  EXPECT_FALSE(change_token_file(path, [&](TokenFile& file) -> std::optional<Error> {
    inner = try_change_token_file(path, [](TokenFile&) { return std::optional<Error>(); });
    use_token(file, file.tokens[0].id);
    return std::nullopt;
  }));
  ASSERT_TRUE(inner);
  EXPECT_EQ(inner->status, Status::kTimedOut);
  EXPECT_THAT(inner->text, HasSubstr("another process is changing it"));
  EXPECT_FALSE(try_change_token_file(path, [](TokenFile& file) { return add_token(file, token_of(3, "c")); }));
  EXPECT_EQ(load_token_file(path)->tokens.size(), 3U);
}

TEST_F(TokenFiles, NoChangeIsLostWhenManyChangeTheFile) {
  write(text_of(sample()));
  constexpr std::uint64_t kThreads = 4;
  constexpr std::uint64_t kChanges = 8;
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        for (std::uint64_t i = 0; i < kChanges; ++i) {
          const TokenRecord token = token_of(100 + thread * kChanges + i, "");
          EXPECT_FALSE(change_token_file(path, [&](TokenFile& file) { return add_token(file, token); }));
          EXPECT_TRUE(load_token_file(path).ok());
        }
      });
    }
  }
  EXPECT_EQ(load_token_file(path)->tokens.size(), 2 + kThreads * kChanges);
  EXPECT_EQ(folder.files(), 1);
}

}  // namespace
}  // namespace lockstep::transport
