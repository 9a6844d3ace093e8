#include "ctl_target.h"

#include <string.h>

const char *
ctl_target_parse(const char *text, size_t len, const char *queue, struct ctl_target *out)
{
	const char *slash = queue ? NULL : memchr(text, '/', len);
	const char *key = slash ? slash + 1 : text;
	size_t key_len = len - (size_t)(key - text);
	size_t queue_len;

	if (!queue)
		queue = slash ? text : "default";
	queue_len = slash ? (size_t)(slash - text) : strlen(queue);
	if (queue_len == 0)
		return "the queue is empty";
	if (key_len == 0)
		return "the key is empty";
	if (queue_len > CTL_QUEUE_MAX)
		return "the queue's name is longer than 128 bytes";
	if (key_len > CTL_KEY_MAX)
		return "the key is longer than 255 bytes";
	memcpy(out->queue, queue, queue_len);
	out->queue[queue_len] = '\0';
	memcpy(out->key, key, key_len);
	out->key[key_len] = '\0';
	return NULL;
}
