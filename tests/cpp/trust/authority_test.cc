#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>

#include "issued.h"

using namespace square;
using namespace square::testing;

TEST_CASE("an authority issues identities that others of it believe") {
  const Issuer issuer;
  const auto fra = issuer.node("fra");
  REQUIRE(fra->name().has_value());
  CHECK(to_string(*fra->name()) == "spiffe://square.test/node/fra");
  CHECK(fra->fingerprint().size() == 64);
  struct stat about {};
  REQUIRE(stat((issuer.folder("fra") + "/identity.pem").c_str(), &about) == 0);
  CHECK((about.st_mode & 0777) == 0600);
  REQUIRE(stat((issuer.folder("authority") + "/authority.key").c_str(), &about) == 0);
  CHECK((about.st_mode & 0777) == 0600);
}

TEST_CASE("each certificate is a new one, put in the place of the old") {
  const Issuer issuer;
  const std::string first = issuer.node("fra")->fingerprint();
  CHECK(issuer.node("fra")->fingerprint() != first);
}

TEST_CASE("mistakes of an authority are named") {
  const Issuer issuer;
  const std::string folder = issuer.folder("authority");
  CHECK(Authority::create(folder, "square.test").status().code() == StatusCode::kAlreadyExists);
  CHECK(Authority::create(issuer.folder("other"), "Not A Domain").status().code() ==
        StatusCode::kInvalidArgument);
  CHECK(Authority::open(issuer.folder("nowhere")).status().code() == StatusCode::kNotFound);
  const Authority authority = issuer.authority();
  CHECK(authority.issue(Role::kNode, "a\nb", issuer.folder("x")).code() == StatusCode::kInvalidArgument);
  CHECK(authority.issue(Role::kNode, "a", issuer.folder("x"), std::chrono::seconds(0)).code() ==
        StatusCode::kInvalidArgument);
  CHECK(authority.issue(Role::kNode, "a", issuer.folder("x"), Authority::kMaxLife + std::chrono::hours(1))
            .code() == StatusCode::kInvalidArgument);
  REQUIRE(chmod((folder + "/authority.key").c_str(), 0644) == 0);
  const Status open_to_all = Authority::open(folder).status();
  CHECK(open_to_all.code() == StatusCode::kPermissionDenied);
  CHECK(open_to_all.message().find("chmod 600") != std::string::npos);
}

TEST_CASE("an identity's folder that is damaged is named") {
  const Issuer issuer;
  const Issuer stranger;
  issuer.issue(Role::kNode, "a");
  stranger.issue(Role::kNode, "b");
  const std::string own = issuer.folder("a") + "/identity.pem";
  const std::string authority = issuer.folder("a") + "/authority.pem";
  CHECK(Identity::open(issuer.folder("nowhere")).status().code() == StatusCode::kNotFound);
  std::filesystem::copy_file(stranger.folder("b") + "/authority.pem", authority,
                             std::filesystem::copy_options::overwrite_existing);
  CHECK(Identity::open(issuer.folder("a")).status().code() == StatusCode::kFailedPrecondition);
  std::ofstream(authority) << "nothing";
  CHECK(Identity::open(issuer.folder("a")).status().code() == StatusCode::kInvalidArgument);
  issuer.issue(Role::kNode, "a");
  std::ofstream(own) << "nothing";
  CHECK(Identity::open(issuer.folder("a")).status().code() == StatusCode::kInvalidArgument);
  issuer.issue(Role::kNode, "a");
  REQUIRE(chmod(own.c_str(), 0640) == 0);
  CHECK(Identity::open(issuer.folder("a")).status().code() == StatusCode::kPermissionDenied);
}

TEST_CASE("what was revoked is kept, a name once, and a file that is none is not overwritten") {
  const Issuer issuer;
  issuer.issue(Role::kController, "c");
  const std::string folder = issuer.folder("c");
  REQUIRE(Authority::revoke(Role::kNode, "a", folder).is_ok());
  REQUIRE(Authority::revoke(Role::kTenant, "a", folder).is_ok());
  REQUIRE(Authority::revoke(Role::kNode, "a", folder).is_ok());
  std::ifstream file(folder + "/revoked");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  CHECK(std::count(text.begin(), text.end(), '\n') == 2);
  CHECK(text.find("node/a ") != std::string::npos);
  std::ofstream(folder + "/revoked") << "something else\n";
  const Status damaged = Authority::revoke(Role::kNode, "b", folder);
  CHECK(damaged.code() == StatusCode::kInvalidArgument);
}
