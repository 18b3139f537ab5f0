#include "square/authority.h"

#include <fmt/format.h>

#include <ctime>
#include <filesystem>
#include <utility>

#include "base/check.h"
#include "trust/certificate.h"
#include "trust/files.h"
#include "trust/grant_text.h"
#include "trust/grants.h"
#include "trust/revocations.h"

namespace square {
namespace {

using namespace trust;

// The authority's own place in the names of its domain, for people: it is nobody's peer.
std::string common_name_of(const std::string& domain) { return "Square authority of " + domain; }

std::string in(const std::string& folder, const char* file) {
  return (std::filesystem::path(folder) / file).string();
}

std::string domain_of(const X509& certificate) {
  const std::string prefix = common_name_of("");
  std::string name(256 + prefix.size(), '\0');
  const int size = X509_NAME_get_text_by_NID(X509_get_subject_name(&certificate), NID_commonName, name.data(),
                                             static_cast<int>(name.size()));
  if (size < 0) return {};
  name.resize(static_cast<std::size_t>(size));
  return name.starts_with(prefix) ? name.substr(prefix.size()) : std::string();
}

}  // namespace

Authority::Authority(std::string domain, std::string key_pem, std::string certificate_pem)
    : domain_(std::move(domain)),
      key_pem_(std::move(key_pem)),
      certificate_pem_(std::move(certificate_pem)) {}

Result<Authority> Authority::create(const std::string& folder, const std::string& domain) {
  SQUARE_RETURN_IF_ERROR(check_identity_name({domain, Role::kController, "any"}));
  const std::string key_file = in(folder, kKeyFile);
  const std::string certificate_file = in(folder, Identity::kAuthorityFile);
  for (const std::string& file : {key_file, certificate_file}) {
    if (std::filesystem::exists(file)) {
      return already_exists(fmt::format("{} is there already: name another folder", file));
    }
  }
  const KeyPtr key = make_key();
  if (!key) return internal_error(fmt::format("cannot make a key: {}", openssl_error()));
  SQUARE_ASSIGN_OR_RETURN(
      const CertificatePtr certificate,
      make_certificate({common_name_of(domain), std::nullopt, kAuthorityLife, true}, *key, nullptr, nullptr));
  Authority made(domain, to_pem(*key), to_pem(*certificate));
  SQUARE_RETURN_IF_ERROR(make_folder(folder));
  SQUARE_RETURN_IF_ERROR(write_file(key_file, made.key_pem_, Secrecy::kSecret));
  SQUARE_RETURN_IF_ERROR(write_file(certificate_file, made.certificate_pem_, Secrecy::kPublic));
  return made;
}

Result<Authority> Authority::open(const std::string& folder) {
  const std::string key_file = in(folder, kKeyFile);
  const std::string certificate_file = in(folder, Identity::kAuthorityFile);
  SQUARE_ASSIGN_OR_RETURN(std::string key_pem, read_file(key_file, Secrecy::kSecret));
  SQUARE_ASSIGN_OR_RETURN(std::string certificate_pem, read_file(certificate_file, Secrecy::kPublic));
  const KeyPtr key = read_key_pem(key_pem);
  const CertificatePtr certificate = read_certificate_pem(certificate_pem);
  if (!key) return invalid_argument(fmt::format("{} is no key in PEM", key_file));
  if (!certificate) return invalid_argument(fmt::format("{} is no certificate in PEM", certificate_file));
  std::string domain = domain_of(*certificate);
  if (domain.empty() || X509_check_private_key(certificate.get(), key.get()) != 1) {
    return invalid_argument(
        fmt::format("{} and {} are no authority of `square ca init`", key_file, certificate_file));
  }
  if (expiry_of(*certificate) <= std::time(nullptr)) {
    return failed_precondition(fmt::format("the authority in {} has expired: make a new one", folder));
  }
  return Authority(std::move(domain), std::move(key_pem), std::move(certificate_pem));
}

Status Authority::issue(Role role, const std::string& name, const std::string& target,
                        std::chrono::seconds life) const {
  const IdentityName identity{domain_, role, name};
  SQUARE_RETURN_IF_ERROR(check_identity_name(identity));
  if (life <= std::chrono::seconds(0) || life > kMaxLife) {
    return invalid_argument(fmt::format("a certificate cannot live for {} s: 1 s to {} days", life.count(),
                                        kMaxLife.count() / 24));
  }
  const KeyPtr key = make_key();
  const KeyPtr own_key = read_key_pem(key_pem_);
  const CertificatePtr own = read_certificate_pem(certificate_pem_);
  if (!key || !own_key || !own) return internal_error(fmt::format("cannot make a key: {}", openssl_error()));
  const std::string common_name = fmt::format("{} {}", to_string(role), to_path_segment(name)).substr(0, 64);
  SQUARE_ASSIGN_OR_RETURN(
      const CertificatePtr certificate,
      make_certificate({common_name, identity, life, false}, *key, own.get(), own_key.get()));
  SQUARE_RETURN_IF_ERROR(make_folder(target));
  SQUARE_RETURN_IF_ERROR(
      write_file(in(target, Identity::kAuthorityFile), certificate_pem_, Secrecy::kPublic));
  return write_file(in(target, Identity::kIdentityFile), to_pem(*key) + to_pem(*certificate),
                    Secrecy::kSecret);
}

Result<std::string> Authority::grant(Grant grant) const {
  grant.domain = domain_;
  const KeyPtr key = read_key_pem(key_pem_);
  if (!key) return internal_error(fmt::format("cannot read the authority's key: {}", openssl_error()));
  return sign_grant(grant, *key);
}

Status Authority::write_grant(Grant grant, const std::string& folder) const {
  const std::string file = in(folder, grant_file_of(grant.tenant).c_str());
  SQUARE_ASSIGN_OR_RETURN(const std::string text, this->grant(std::move(grant)));
  SQUARE_RETURN_IF_ERROR(make_folder(folder));
  return write_file(file, text, Secrecy::kSecret);
}

Status Authority::revoke(Role role, const std::string& name, const std::string& folder) {
  SQUARE_RETURN_IF_ERROR(check_identity_name({"any", role, name}));
  const std::string file = in(folder, Identity::kRevokedFile);
  std::vector<Revocation> revoked;
  if (std::filesystem::exists(file)) {
    SQUARE_ASSIGN_OR_RETURN(const std::string text, read_file(file, Secrecy::kPublic));
    SQUARE_ASSIGN_OR_RETURN(revoked, parse_revocations(text));
  }
  std::erase_if(revoked, [&](const Revocation& one) { return one.role == role && one.name == name; });
  revoked.push_back({role, name, static_cast<std::int64_t>(std::time(nullptr))});
  return write_file(file, to_text(revoked), Secrecy::kPublic);
}

}  // namespace square
