/*
 * Certificates for unit tests, made when they are needed, in files of a folder.
 */
#ifndef WQD_TESTS_CERTS_H
#define WQD_TESTS_CERTS_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "unit/remove_tree.h"
#include "unit/unit.h"

struct certs_spec {
	const char *name;  /* CN */
	size_t name_n;     /* 0: as long as it reads */
	const char *alt;   /* "DNS:localhost,IP:127.0.0.1"; NULL: none */
	long from_s, to_s; /* from now */
	bool authority;
};

static void
certs_name(X509_NAME *n, const struct certs_spec *spec)
{
	size_t len = spec->name_n ? spec->name_n : strlen(spec->name);

	ck_assert(X509_NAME_add_entry_by_txt(
		n, "CN", MBSTRING_UTF8, (const unsigned char *)spec->name, (int)len, -1, 0));
}

static void
certs_extension(X509 *x, int nid, const char *value)
{
	X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, NULL, nid, value);

	ck_assert_ptr_nonnull(e);
	ck_assert(X509_add_ext(x, e, -1));
	X509_EXTENSION_free(e);
}

/* Writes FOLDER/BASE.pem and FOLDER/BASE.key: issued by the pair of ISSUER there, or by itself. */
static inline void
certs_make(const char *folder, const char *base, const char *issuer, const struct certs_spec *spec)
{
	static long serial = 1;
	EVP_PKEY *key = EVP_EC_gen("P-256"), *by_key = key;
	X509 *x = X509_new(), *by = x;
	char path[256];
	FILE *f;

	if (issuer) {
		snprintf(path, sizeof path, "%s/%s.pem", folder, issuer);
		f = fopen(path, "r");
		by = PEM_read_X509(f, NULL, NULL, NULL);
		fclose(f);
		snprintf(path, sizeof path, "%s/%s.key", folder, issuer);
		f = fopen(path, "r");
		by_key = PEM_read_PrivateKey(f, NULL, NULL, NULL);
		fclose(f);
	}
	X509_set_version(x, X509_VERSION_3);
	ASN1_INTEGER_set(X509_get_serialNumber(x), ++serial);
	X509_gmtime_adj(X509_getm_notBefore(x), spec->from_s);
	X509_gmtime_adj(X509_getm_notAfter(x), spec->to_s);
	X509_set_pubkey(x, key);
	certs_name(X509_get_subject_name(x), spec);
	X509_set_issuer_name(x, X509_get_subject_name(by));
	if (spec->authority)
		certs_extension(x, NID_basic_constraints, "critical,CA:TRUE");
	if (spec->alt)
		certs_extension(x, NID_subject_alt_name, spec->alt);
	ck_assert(X509_sign(x, by_key, EVP_sha256()));
	snprintf(path, sizeof path, "%s/%s.pem", folder, base);
	f = fopen(path, "w");
	ck_assert(PEM_write_X509(f, x));
	fclose(f);
	snprintf(path, sizeof path, "%s/%s.key", folder, base);
	f = fopen(path, "w");
	ck_assert(PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL));
	fclose(f);
	if (issuer) {
		X509_free(by);
		EVP_PKEY_free(by_key);
	}
	X509_free(x);
	EVP_PKEY_free(key);
}

/* The folder with all that is in it. */
static inline void
certs_remove(const char *folder)
{
	ck_assert_int_eq(remove_tree(folder), 0);
}

#define CERTS_DAY 86400l

#endif
