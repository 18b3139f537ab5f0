#include "trust/certificate.h"

#include <fmt/format.h>
#include <openssl/asn1.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <utility>

namespace square::trust {
namespace {

constexpr long kVersion3 = 2;
// Clocks of machines differ: a certificate holds from a little before it was made.
constexpr long kClockDoubtSeconds = 60;
// A serial number of ours begins with this, then the second in which it was drawn: when a certificate was
// issued is wanted more exactly than from when it holds. 19 bytes, and so positive and short enough.
constexpr std::array<unsigned char, 3> kSerialMark{0x53, 0x51, 0x31};
constexpr std::size_t kSecondsBytes = 8;
constexpr std::size_t kRandomBytes = 8;
constexpr std::size_t kSerialBytes = kSerialMark.size() + kSecondsBytes + kRandomBytes;

std::int64_t seconds_of(const ASN1_TIME* time) {
  std::tm parts{};
  return ASN1_TIME_to_tm(time, &parts) == 1 ? static_cast<std::int64_t>(timegm(&parts)) : 0;
}

bool add_extension(X509& certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, &certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str());
  if (extension == nullptr) return false;
  const bool is_added = X509_add_ext(&certificate, extension, -1) == 1;
  X509_EXTENSION_free(extension);
  return is_added;
}

bool set_serial(X509& certificate) {
  std::array<unsigned char, kSerialBytes> serial{};
  auto* const seconds = std::ranges::copy(kSerialMark, serial.begin()).out;
  const auto now = static_cast<std::uint64_t>(std::time(nullptr));
  for (std::size_t i = 0; i < kSecondsBytes; ++i) {
    seconds[i] = static_cast<unsigned char>(now >> (8 * (kSecondsBytes - 1 - i)));
  }
  if (RAND_bytes(seconds + kSecondsBytes, kRandomBytes) != 1) return false;
  const std::unique_ptr<BIGNUM, Freed<BN_free>> number(BN_bin2bn(serial.data(), kSerialBytes, nullptr));
  return number && BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(&certificate)) != nullptr;
}

std::optional<std::int64_t> issued_by_serial(const X509& certificate) {
  const ASN1_INTEGER* const serial = X509_get0_serialNumber(&certificate);
  const auto* const bytes = ASN1_STRING_get0_data(serial);
  if (ASN1_STRING_length(serial) != static_cast<int>(kSerialBytes) ||
      !std::equal(kSerialMark.begin(), kSerialMark.end(), bytes)) {
    return std::nullopt;
  }
  std::uint64_t seconds = 0;
  for (std::size_t i = 0; i < kSecondsBytes; ++i) seconds = (seconds << 8U) | bytes[kSerialMark.size() + i];
  return static_cast<std::int64_t>(seconds);
}

bool set_times(X509& certificate, std::chrono::seconds life) {
  return X509_gmtime_adj(X509_getm_notBefore(&certificate), -kClockDoubtSeconds) != nullptr &&
         X509_gmtime_adj(X509_getm_notAfter(&certificate), static_cast<long>(life.count())) != nullptr;
}

bool add_extensions(X509& certificate, X509* issuer, const Wanted& wanted) {
  const bool is_authority = wanted.is_authority;
  const char* const uses = is_authority ? "critical,keyCertSign,cRLSign" : "critical,digitalSignature";
  if (!add_extension(certificate, issuer, NID_basic_constraints,
                     is_authority ? "critical,CA:TRUE,pathlen:0" : "critical,CA:FALSE") ||
      !add_extension(certificate, issuer, NID_key_usage, uses) ||
      !add_extension(certificate, issuer, NID_subject_key_identifier, "hash")) {
    return false;
  }
  if (!is_authority && !add_extension(certificate, issuer, NID_ext_key_usage, "serverAuth,clientAuth")) {
    return false;
  }
  if (issuer != &certificate &&
      !add_extension(certificate, issuer, NID_authority_key_identifier, "keyid:always")) {
    return false;
  }
  if (!wanted.name.has_value()) return true;
  return add_extension(certificate, issuer, NID_subject_alt_name, "URI:" + to_string(*wanted.name));
}

bool set_common_name(X509_NAME* names, const std::string& text) {
  const auto* const bytes = reinterpret_cast<const unsigned char*>(text.data());
  return X509_NAME_add_entry_by_txt(names, "CN", MBSTRING_UTF8, bytes, static_cast<int>(text.size()), -1,
                                    0) == 1;
}

// The one URI of the certificate, if it names an identity; several are none.
std::optional<IdentityName> name_of(const X509& certificate) {
  const NamesPtr names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr)));
  std::optional<IdentityName> found;
  int uris = 0;
  for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    ++uris;
    const ASN1_IA5STRING* const uri = name->d.uniformResourceIdentifier;
    const auto parsed = parse_identity_name({reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                                             static_cast<std::size_t>(ASN1_STRING_length(uri))});
    if (parsed.is_ok()) found = *parsed;
  }
  return uris == 1 ? found : std::nullopt;
}

}  // namespace

PeerCertificate describe(const X509& certificate) {
  const std::int64_t holds_from = seconds_of(X509_get0_notBefore(&certificate));
  return {name_of(certificate), fingerprint_of(certificate),
          issued_by_serial(certificate).value_or(holds_from), expiry_of(certificate)};
}

std::int64_t expiry_of(const X509& certificate) { return seconds_of(X509_get0_notAfter(&certificate)); }

Result<CertificatePtr> make_certificate(const Wanted& wanted, EVP_PKEY& key, X509* issuer,
                                        EVP_PKEY* issuer_key) {
  CertificatePtr made(X509_new());
  X509* const signer = issuer == nullptr ? made.get() : issuer;
  const bool is_made = made && X509_set_version(made.get(), kVersion3) == 1 && set_serial(*made) &&
                       set_times(*made, wanted.life) && X509_set_pubkey(made.get(), &key) == 1 &&
                       set_common_name(X509_get_subject_name(made.get()), wanted.common_name) &&
                       X509_set_issuer_name(made.get(), X509_get_subject_name(signer)) == 1 &&
                       add_extensions(*made, signer, wanted) &&
                       X509_sign(made.get(), issuer_key == nullptr ? &key : issuer_key, EVP_sha256()) > 0;
  if (!is_made) return internal_error(fmt::format("cannot make a certificate: {}", openssl_error()));
  return made;
}

}  // namespace square::trust

namespace square {

Result<PeerCertificate> read_certificate(std::string_view pem) {
  const auto certificate = trust::read_certificate_pem(pem);
  if (!certificate) return invalid_argument("it is no certificate in PEM");
  return trust::describe(*certificate);
}

}  // namespace square
