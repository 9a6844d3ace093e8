/*
 * Words and sentences for numbers: reply words, states, outcomes, errors. The lists are the
 * header's, each with its word; a switch without default makes the compiler name one that was
 * forgotten.
 */
#include <errno.h>
#include <string.h>

#include "wq.h"

/* clang-format off */
#define STATUS_LIST(X) \
	X(WQ_OK,                  "OK",                  "done") \
	X(WQ_CREATED,             "CREATED",             "the job was idle and is pending now") \
	X(WQ_UPDATED_TIMER,       "UPDATED_TIMER",       "it was armed; its deadline moved") \
	X(WQ_UPDATED_READY,       "UPDATED_READY",       "it was ready or held and was taken back") \
	X(WQ_REQUEUED_RUNNING,    "REQUEUED_RUNNING",    "it is running and will run once more") \
	X(WQ_UNCHANGED,           "UNCHANGED",           "it was pending and the mode keeps that") \
	X(WQ_SKIPPED,             "SKIPPED",             "inside the coalescing slack: nothing to do") \
	X(WQ_IDLE,                "IDLE",                "nothing was pending or running") \
	X(WQ_NOT_PENDING_RUNNING, "NOT_PENDING_RUNNING", "not pending; a run goes on") \
	X(WQ_CANCELLED,           "CANCELLED",           "the pending instance was taken away") \
	X(WQ_CANCELLED_RUNNING,   "CANCELLED_RUNNING",   "taken away, while a run went on or was stopped") \
	X(WQ_INVALID,             "INVALID",             "the request makes no sense; nothing was changed") \
	X(WQ_NOT_FOUND,           "NOT_FOUND",           "no such queue, job or run") \
	X(WQ_REFUSED_DISABLED,    "REFUSED_DISABLED",    "the job is disabled, or being cancelled") \
	X(WQ_REFUSED_DRAINING,    "REFUSED_DRAINING",    "the queue or the daemon is draining") \
	X(WQ_REFUSED_LIMIT,       "REFUSED_LIMIT",       "a limit of the daemon is reached") \
	X(WQ_UNAUTHORIZED,        "UNAUTHORIZED",        "not allowed") \
	X(WQ_STORAGE_ERROR,       "STORAGE_ERROR",       "the daemon could not store it") \
	X(WQ_TIMEOUT,             "TIMEOUT",             "its waiting time passed") \
	X(WQ_UNIMPLEMENTED,       "UNIMPLEMENTED",       "the daemon does not know this operation") \
	X(WQ_EXISTS,              "EXISTS",              "it exists already") \
	X(WQ_LEASE_LOST,          "LEASE_LOST",          "the lease is over: another may hold the job")

#define ERROR_LIST(X) \
	X(WQ_ERR_ADDRESS,     "ADDRESS",     "not an address: unix:PATH, tcp://HOST:PORT or tls://HOST:PORT") \
	X(WQ_ERR_CLOSED,      "CLOSED",      "the connection is gone; it is not known whether the request was done") \
	X(WQ_ERR_PROTOCOL,    "PROTOCOL",    "the peer does not speak wq.v1") \
	X(WQ_ERR_TOO_MANY,    "TOO_MANY",    "too many requests wait for replies") \
	X(WQ_ERR_TOO_LARGE,   "TOO_LARGE",   "larger than the daemon takes") \
	X(WQ_ERR_OPTION,      "OPTION",      "unknown option, bad value, or set too late") \
	X(WQ_ERR_TIMEOUT,     "NO_REPLY",    "no reply in time; the request may have been done") \
	X(WQ_ERR_UNSUPPORTED, "UNSUPPORTED", "not in this version of the library") \
	X(WQ_ERR_TLS,         "TLS",         "no TLS connection") \
	X(WQ_ERR_UNTRUSTED,   "UNTRUSTED",   "the daemon's certificate is issued by nobody who is trusted") \
	X(WQ_ERR_WRONG_NAME,  "WRONG_NAME",  "the daemon's certificate is for another name") \
	X(WQ_ERR_EXPIRED,     "EXPIRED",     "the daemon's certificate has expired, or is not valid yet")
/* clang-format on */

#define AS_WORD(name, word, sentence) \
	case name: \
		return word;
#define AS_SENTENCE(name, word, sentence) \
	case name: \
		return sentence;

const char *
wq_status_word(wq_status_t status)
{
	switch (status) {
		STATUS_LIST(AS_WORD)
	}
	return "?";
}

const char *
wq_event_word(wq_event_kind_t kind)
{
	switch (kind) {
	case WQ_EVENT_NONE:
		return "none";
	case WQ_EVENT_ARMED:
		return "armed";
	case WQ_EVENT_UPDATED:
		return "updated";
	case WQ_EVENT_SKIPPED:
		return "skipped";
	case WQ_EVENT_READY:
		return "ready";
	case WQ_EVENT_STARTED:
		return "started";
	case WQ_EVENT_FINISHED:
		return "finished";
	case WQ_EVENT_CANCELLED:
		return "cancelled";
	case WQ_EVENT_QUEUE:
		return "queue";
	case WQ_EVENT_RETURNED:
		return "returned";
	}
	return "?";
}

const char *
wq_state_word(wq_state_t state)
{
	switch (state) {
	case WQ_STATE_IDLE:
		return "idle";
	case WQ_STATE_ARMED:
		return "armed";
	case WQ_STATE_READY:
		return "ready";
	case WQ_STATE_HELD:
		return "held";
	case WQ_STATE_RUNNING:
		return "running";
	}
	return "?";
}

const char *
wq_outcome_word(wq_outcome_t outcome)
{
	switch (outcome) {
	case WQ_RUN_NONE:
		return "none";
	case WQ_RUN_DONE:
		return "done";
	case WQ_RUN_FAILED:
		return "failed";
	case WQ_RUN_DEAD:
		return "dead";
	case WQ_RUN_CANCELLED:
		return "cancelled";
	case WQ_RUN_INTERRUPTED:
		return "interrupted";
	case WQ_RUN_TIMEOUT:
		return "timeout";
	}
	return "?";
}

static const char *
status_sentence(wq_status_t status)
{
	switch (status) {
		STATUS_LIST(AS_SENTENCE)
	}
	return NULL;
}

/* True for the negative of a status of the error half. */
static int
is_status_error(int error)
{
	return error <= -64 && error > -128 && status_sentence((wq_status_t)-error) != NULL;
}

const char *
wq_strerror(int error)
{
	const char *s = NULL;

	switch (error) {
		ERROR_LIST(AS_SENTENCE)
	default:
		break;
	}
	if (error == 0)
		return "no error";
	if (is_status_error(error))
		return status_sentence((wq_status_t)-error);
	if (error < 0 && error > -2000)
		s = strerrordesc_np(-error);
	return s ? s : "unknown error";
}

const char *
wq_error_word(int error)
{
	const char *s = NULL;

	switch (error) {
		ERROR_LIST(AS_WORD)
	default:
		break;
	}
	if (error == 0)
		return "OK";
	if (is_status_error(error))
		return wq_status_word((wq_status_t)-error);
	if (error < 0 && error > -2000)
		s = strerrorname_np(-error);
	return s ? s : "?";
}

int
wq_retriable(int error)
{
	switch (error) {
	case WQ_ERR_CLOSED:
	case WQ_ERR_TIMEOUT:
	case WQ_ERR_TOO_MANY:
	case -WQ_REFUSED_DISABLED:
	case -WQ_REFUSED_DRAINING:
	case -WQ_REFUSED_LIMIT:
	case -WQ_STORAGE_ERROR:
	case -WQ_TIMEOUT:
	case -EAGAIN:
	case -EINTR:
	case -ENOMEM:
	case -ENOBUFS:
	case -EMFILE:
	case -ENFILE:
	case -ENOENT: /* the socket of a daemon that has not started yet */
	case -ECONNREFUSED:
	case -ECONNRESET:
	case -ECONNABORTED:
	case -EPIPE:
	case -ETIMEDOUT:
	case -ENETDOWN:
	case -ENETUNREACH:
	case -EHOSTDOWN:
	case -EHOSTUNREACH:
		return 1;
	default:
		return 0;
	}
}

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

const char *
wq_version(void)
{
	return TEXT(WQ_VERSION_MAJOR) "." TEXT(WQ_VERSION_MINOR) "." TEXT(WQ_VERSION_PATCH);
}
