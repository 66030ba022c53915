"""How the marketplace is asked, by the settings: its paths, its first page and the headers of a request."""

from __future__ import annotations

from sellerwatch.marketplaces.mustit.headers import RequestHeaders
from sellerwatch.marketplaces.mustit.urls import Urls
from sellerwatch.settings.model import Settings
from sellerwatch.settings.values import headers_in


def urls_of(settings: Settings) -> Urls:
    return Urls(
        list_path=settings.marketplace_list_path,
        detail_path=settings.marketplace_detail_path,
        options_path=settings.marketplace_options_path,
        token_path=settings.marketplace_token_path,
        first_page=settings.marketplace_first_page,
    )


def headers_of(settings: Settings) -> RequestHeaders:
    ((name, form),) = headers_in(settings.marketplace_token_header).items()
    return RequestHeaders(
        api=headers_in(settings.marketplace_headers),
        page=headers_in(settings.marketplace_page_headers),
        token_name=name,
        token_form=form,
    )
