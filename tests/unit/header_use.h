/* What both languages do with the public headers: use of every kind of declaration. */
static int
use_headers(void)
{
	wq_update_opts_t o = WQ_UPDATE_INIT;
	wq_list_opts_t l = WQ_LIST_INIT;
	wq_batch_t *b = NULL;
	wq_t *wq = NULL;
	struct wq_libevent le;
	struct event_base *base = event_base_new();
	int ok;

	o.payload_mode = WQ_PAYLOAD_REPLACE;
	o.payload = "x";
	o.payload_len = 1;
	l.state = WQ_STATE_ARMED;
	ok = base != NULL && l.page == 0 && wq_new("unix:/nowhere", &wq) == 0;
	if (!ok)
		return 0;
	wq_libevent_attach(&le, wq, base, NULL, NULL);
	ok = wq_send_update(wq, NULL, "k", 1000, &o, NULL, NULL) == 0 && wq_in_flight(wq) == 1 &&
		wq_batch_new(wq, &b) == 0 && wq_batch_update(b, NULL, NULL, 0, NULL) == 0;
	wq_batch_free(b);
	wq_libevent_detach(&le);
	wq_libevent_detach(&le);
	wq_free(wq);
	event_base_free(base);
	return ok && wq_status_word(WQ_CREATED)[0] == 'C';
}
