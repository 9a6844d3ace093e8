#include "engine/words.h"

#include "base/assert.h"
#include "base/err.h"

#define AS_CASE(name, num, word, ...) \
	case name: \
		return word;

const char *
status_word(enum status s)
{
	switch (s) {
		STATUS_TABLE(AS_CASE)
	}
	return "?";
}

const char *
job_state_word(enum job_state s)
{
	switch (s) {
		JOB_STATE_TABLE(AS_CASE)
	}
	return "?";
}

const char *
run_outcome_word(enum run_outcome o)
{
	switch (o) {
		RUN_OUTCOME_TABLE(AS_CASE)
	}
	return "?";
}

#define AS_WORD(name, num, word, ...) [num] = word,
#define WORD_TABLE(var, TABLE) \
	static const char *const var##_list[] = { TABLE(AS_WORD) }; \
	const struct word_table var = { var##_list, ARRAY_SIZE(var##_list) }

WORD_TABLE(action_words, ACTION_TABLE);
WORD_TABLE(misfire_words, MISFIRE_TABLE);
WORD_TABLE(durability_words, DURABILITY_TABLE);
WORD_TABLE(backoff_words, BACKOFF_TABLE);
WORD_TABLE(priority_words, PRIORITY_TABLE);
WORD_TABLE(admit_words, ADMIT_TABLE);

int
word_number(const struct word_table *t, struct str word)
{
	for (int i = 0; i < t->n; i++)
		if (t->words[i] && str_eq(word, str_from(t->words[i])))
			return i;
	return ERR_UNKNOWN_NAME;
}
