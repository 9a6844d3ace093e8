include_HEADERS += %reldir%/wq.h %reldir%/wq_libevent.h
